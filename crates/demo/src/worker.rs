//! One process on one of the hosts: a session, and some tellers that share it.

use crate::bank::Bank;
use crate::messages::{Order, Said};
use crate::tally::Tally;
use crate::teller::Teller;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use wayside_client::{Session, Wait};

/// Two, so that some locks pass between threads of a process without a packet.
pub const TELLERS: usize = 2;
/// What a killed worker has done since its last report is not in the percentiles: the less, the better.
const REPORT_EVERY: Duration = Duration::from_millis(50);
/// For a switch that is being restarted.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a worker is started. The demo writes these, nobody else.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArgs {
    /// File of the accounts
    #[arg(long)]
    pub bank: PathBuf,
    /// Where the switch is; without it, no locks are taken
    #[arg(long)]
    pub endpoint: Option<String>,
    /// The bank takes stale tokens
    #[arg(long)]
    pub without_fencing: bool,
}

/// What the tellers are to do, besides their work.
#[derive(Default)]
pub struct Orders {
    standing: Mutex<Standing>,
    changed: Condvar,
}

#[derive(Default)]
struct Standing {
    stop: bool,
    hold: bool,
    go: bool,
    want: Option<[usize; 2]>,
}

impl Orders {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().expect("nobody panics with it")
    }

    fn obey(&self, order: &Order) {
        let mut standing = self.standing();
        match *order {
            Order::Hold => standing.hold = true,
            Order::Go => standing.go = true,
            Order::Want(accounts) => standing.want = Some(accounts),
            Order::Stop => standing.stop = true,
        }
        self.changed.notify_all();
    }

    pub fn stops(&self) -> bool {
        self.standing().stop
    }

    pub fn take_want(&self) -> Option<[usize; 2]> {
        self.standing().want.take()
    }

    /// The transfer that was wanted has failed: it is wanted still.
    pub fn want(&self, accounts: [usize; 2]) {
        self.obey(&Order::Want(accounts));
    }

    /// If it was ordered so, calls `holding` and waits for the order to go on. Says whether it was.
    pub fn hold_if_told(&self, holding: impl FnOnce()) -> bool {
        let mut standing = self.standing();
        if !std::mem::take(&mut standing.hold) {
            return false;
        }
        holding();
        let mut standing = self
            .changed
            .wait_while(standing, |standing| !standing.go && !standing.stop)
            .expect("nobody panics with it");
        standing.go = false;
        true
    }
}

/// Writes a line to the demo. If the demo is gone, so is the reason for this process.
pub fn say(said: &Said) {
    let mut line = serde_json::to_string(said).expect("numbers and names become text");
    line.push('\n');
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

/// Works until the standard input ends or says so.
pub fn run(args: &WorkerArgs) -> Result<(), String> {
    let session = args.endpoint.as_ref().map(|endpoint| connect(endpoint)).transpose()?;
    let tellers = hire(args, session.as_ref())?;
    let info = session.as_ref().and_then(Session::info);
    say(&Said::Ready { lease_us: info.map_or(0, |info| info.lease), grace_us: info.map_or(0, |info| info.grace) });
    let (orders, tally) = (tellers[0].orders.clone(), tellers[0].tally.clone());
    let report = || {
        let report = tally.lock().expect("nobody panics with it").take_report();
        say(&Said::Report(report));
    };
    thread::spawn({
        let orders = orders.clone();
        move || listen(&orders)
    });
    // One that fails ends the others: a worker that limps would show nothing.
    let work = |teller: Teller| move || teller.work().inspect_err(|_| teller.orders.obey(&Order::Stop));
    let threads: Vec<_> = tellers.into_iter().map(|teller| thread::spawn(work(teller))).collect();
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        thread::sleep(REPORT_EVERY);
        report();
    }
    for thread in threads {
        thread.join().map_err(|_| "a teller panicked".to_owned())??;
    }
    report();
    Ok(())
}

fn connect(endpoint: &str) -> Result<Session, String> {
    // More processes than processors: whoever waits lets others work.
    let builder = Session::builder().endpoint(endpoint).wait(Wait::Block).patience(PATIENCE);
    builder.connect().map_err(|error| error.to_string())
}

fn hire(args: &WorkerArgs, session: Option<&Session>) -> Result<Vec<Teller>, String> {
    let open =
        || Bank::open(&args.bank, !args.without_fencing).map_err(|error| format!("{}: {error}", args.bank.display()));
    let statement = open()?.statement().map_err(|error| error.to_string())?;
    let names: Vec<String> = (0..statement.accounts.len()).map(|account| format!("accounts/{account}")).collect();
    let (names, orders, tally) = (Arc::new(names), Arc::<Orders>::default(), Arc::<Mutex<Tally>>::default());
    let teller = |bank| Teller {
        bank,
        names: names.clone(),
        money: statement.founded_with,
        session: session.cloned(),
        orders: orders.clone(),
        tally: tally.clone(),
    };
    (0..TELLERS).map(|_| open().map(teller)).collect()
}

fn listen(orders: &Orders) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(order) => orders.obey(&order),
            Err(error) => eprintln!("not understood: {line}: {error}"),
        }
    }
    orders.obey(&Order::Stop);
}
