//! What happens in the demo, in order. Every number was measured; what should have happened and did not is a fault.

use crate::bank::{Bank, Statement};
use crate::crew::{Crew, Failure, Terms, failed, host_of};
use crate::hosts::{HOSTS, Hosts};
use crate::messages::{Order, Said};
use crate::screen::{Screen, Tone, grouped, span};
use crate::switch::{Switch, SwitchFiles};
use crate::table;
use crate::tally::Tally;
use crate::worker::TELLERS;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ACCOUNTS: usize = 32;
const BALANCE: i64 = 100_000;
/// How long the part without locks lasts if it loses money at once, and how long it may take to.
const BARE: Duration = Duration::from_secs(1);
const BARE_MOST: Duration = Duration::from_secs(10);
/// For a request to reach who keeps the lock's books.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
/// Beyond what a lease and its grace explain: a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(5);
/// The accounts go on being used before the paused worker comes back.
const MEANWHILE: Duration = Duration::from_millis(300);
/// For the switch's program without its daemon: long enough for hundreds of transfers.
const ALONE: Duration = Duration::from_millis(500);
/// Before the switch is started again: about what an init system takes.
const DOWN: Duration = Duration::from_millis(200);

/// What is asked of the demo.
pub struct Plan {
    pub seconds: Duration,
    pub lease: Duration,
    pub workers: usize,
    pub loopback: bool,
    pub fenced: bool,
    pub wayside: PathBuf,
}

/// How one part of the demo went.
pub struct Part {
    pub took: Duration,
    pub tally: Tally,
    pub end: Statement,
}

/// Tells the story and judges it.
pub fn tell(plan: &Plan, screen: &mut Screen) -> Result<(), Failure> {
    let directory = tempfile::Builder::new().prefix("wayside-demo-").tempdir()?;
    let hosts = Hosts::make(plan.loopback)?;
    screen.line(&hosts.description);
    let files = SwitchFiles::write(&plan.wayside, directory.path(), &hosts, plan.lease)?;
    let switch = first_switch(&files, &hosts, screen)?;
    screen.line(&format!("The switch: {}.", switch.residence));
    screen.line(&format!(
        "{} processes of {TELLERS} threads move money between {ACCOUNTS} accounts in one file.",
        plan.workers
    ));
    screen.heading("Without locks");
    let bare = without_locks(plan, directory.path(), &hosts, screen)?;
    screen.heading("With locks");
    let mut story = Story::begin(plan, directory.path(), &hosts, &files, switch, screen)?;
    story.run()?;
    let (locked, mut faults) = story.end()?;
    screen.line("");
    table::lines(&bare, &locked, screen).iter().for_each(|line| screen.line(line));
    faults.extend(judge(&bare, &locked));
    if faults.is_empty() {
        screen.line(&format!("\n{}", screen.toned(Tone::Good, "With locks, all the money is there.")));
        return Ok(());
    }
    failed(faults.join("\n        "))
}

/// In native XDP if the hosts allow it; if the switch finds that it can't be, it says why, and takes what it can have.
fn first_switch(files: &SwitchFiles, hosts: &Hosts, screen: &mut Screen) -> Result<Switch, Failure> {
    let native = hosts.native().unwrap_or_else(|why| {
        screen.line(&why);
        false
    });
    match Switch::start(files, native) {
        Err(Failure::Failed(_)) if native => Switch::start(files, false),
        other => other,
    }
}

/// The same work with nothing to keep the tellers apart.
fn without_locks(plan: &Plan, directory: &Path, hosts: &Hosts, screen: &mut Screen) -> Result<Part, Failure> {
    let bank = directory.join("bank-without-locks");
    Bank::found(&bank, ACCOUNTS, BALANCE)?;
    let terms = Terms { bank, count: plan.workers, control_socket: None, fenced: false };
    let (mut crew, ..) = Crew::start(&terms, hosts, screen)?;
    screen.event(Duration::ZERO, &format!("{} workers start, on {HOSTS} hosts", plan.workers));
    crew.watch(screen, BARE)?;
    let loses_money = |crew: &mut Crew| Ok((!crew.statement()?.is_exact()).then_some(()));
    crew.until(screen, BARE_MOST, "without locks the workers were to lose money", loses_money)?;
    let took = crew.began().elapsed();
    crew.dismiss(screen)?;
    let end = crew.statement()?;
    let (missing, surplus) = end.astray();
    screen.event(took, &format!("{} transfers later, money is astray:", grouped(end.transfers)));
    screen.detail(&format!(
        "{} are missing on some accounts, others have {} too much",
        grouped(missing),
        grouped(surplus)
    ));
    Ok(Part { took, tally: crew.tally, end })
}

/// What must hold at the end, besides what the story has seen.
fn judge(bare: &Part, locked: &Part) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            faults.push(what);
        }
    };
    let counts = &locked.tally.counts;
    let difference = table::difference(&locked.end);
    expect(!bare.end.is_exact(), "without locks no money was lost".into());
    expect(locked.end.is_exact(), format!("with locks the money is {difference}"));
    expect(counts.audits > 0, "no audit came to its end".into());
    expect(counts.wrong_audits == 0, format!("{} audits found a wrong sum", counts.wrong_audits));
    for (who, grants) in
        [("the switch", counts.by_switch), ("an agent", counts.by_agent), ("a local agent", counts.by_local)]
    {
        expect(grants > 0, format!("nothing was granted by {who}"));
    }
    faults
}

/// The part with locks, in which things break.
struct Story<'a> {
    screen: &'a mut Screen,
    files: &'a SwitchFiles<'a>,
    crew: Crew,
    switch: Option<Switch>,
    /// Between two events.
    calm: Duration,
    lease: Duration,
    grace: Duration,
    faults: Vec<String>,
}

/// A worker that stands between reading and writing, with its locks.
struct Held {
    worker: usize,
    accounts: [usize; 2],
    tokens: [u64; 2],
    incarnation: u64,
}

impl Held {
    /// "worker 2 on host 2, which holds the locks of accounts 4 and 17"
    fn described(&self) -> String {
        let [a, b] = self.accounts;
        format!("{}, which holds the locks of accounts {a} and {b}", worker_name(self.worker))
    }

    /// When others had both locks, if they had. `of` tells an account's token and when it came.
    fn passed_on(&self, statement: &Statement, of: impl Fn(&crate::bank::Account) -> u64) -> Option<u64> {
        let accounts = self.accounts.map(|account| &statement.accounts[account]);
        let passed = accounts.iter().zip(self.tokens).all(|(account, token)| of(account) > token);
        passed.then(|| accounts[0].seen_at_us.max(accounts[1].seen_at_us))
    }
}

fn worker_name(worker: usize) -> String {
    format!("worker {} on host {}", worker + 1, host_of(worker) + 1)
}

impl<'a> Story<'a> {
    fn begin(
        plan: &Plan,
        directory: &Path,
        hosts: &Hosts,
        files: &'a SwitchFiles<'a>,
        switch: Switch,
        screen: &'a mut Screen,
    ) -> Result<Self, Failure> {
        let bank = directory.join("bank");
        Bank::found(&bank, ACCOUNTS, BALANCE)?;
        let control_socket = Some(files.control_socket.clone());
        let terms = Terms { bank, count: plan.workers, control_socket, fenced: plan.fenced };
        let (crew, lease, grace) = Crew::start(&terms, hosts, screen)?;
        screen.event(
            Duration::ZERO,
            &format!("{} workers start: lease {}, grace {}", plan.workers, span(lease), span(grace)),
        );
        if !plan.fenced {
            screen.detail("the accounts take stale tokens, as asked");
        }
        // Two leases run out, and calm times are between beginning, events and end.
        let (alone, calms) = if switch.at_hook() { (ALONE * 2, 7) } else { (Duration::ZERO, 6) };
        let busy = BARE + (lease + grace) * 2 + MEANWHILE + DOWN * 2 + alone;
        let calm = plan.seconds.saturating_sub(busy) / calms;
        Ok(Story { screen, files, crew, switch: Some(switch), calm, lease, grace, faults: Vec::new() })
    }

    fn run(&mut self) -> Result<(), Failure> {
        self.calm()?;
        self.kill_beside_a_daemon()?;
        self.calm()?;
        self.kill_elsewhere()?;
        self.calm()?;
        self.pause()?;
        self.calm()?;
        if self.switch.as_ref().is_some_and(Switch::at_hook) {
            self.kill_daemon()?;
            self.calm()?;
        }
        self.restart_switch()?;
        self.calm()?;
        self.calm()
    }

    fn end(mut self) -> Result<(Part, Vec<String>), Failure> {
        let took = self.crew.began().elapsed();
        self.crew.dismiss(self.screen)?;
        let end = self.crew.statement()?;
        self.event(&format!("the others end, after {} transfers", grouped(end.transfers)));
        if !self.switch.as_mut().map_or(Ok(false), Switch::runs)? {
            self.faults.push("the switch ended by itself".into());
        }
        Ok((Part { took, tally: self.crew.tally, end }, self.faults))
    }

    fn event(&mut self, text: &str) {
        self.screen.event(self.crew.began().elapsed(), text);
    }

    fn calm(&mut self) -> Result<(), Failure> {
        self.crew.watch(self.screen, self.calm)
    }

    /// Lets a worker stop while it holds two locks, and another one wait for them.
    fn hold(&mut self, worker: usize) -> Result<Held, Failure> {
        self.crew.order(worker, &Order::Hold)?;
        let holding = |said: &Said| match *said {
            Said::Holding { accounts, tokens, incarnation } => Some(Held { worker, accounts, tokens, incarnation }),
            _ => None,
        };
        let held = self.crew.hear(self.screen, worker, "hold two locks", holding)?;
        // The first worker lives until the end.
        let waiter = 0;
        self.crew.order(waiter, &Order::Want(held.accounts))?;
        let asking = |said: &Said| matches!(said, Said::Asking).then_some(());
        self.crew.hear(self.screen, waiter, "ask for them", asking)?;
        self.crew.watch(self.screen, ON_ITS_WAY)?;
        Ok(held)
    }

    /// Kills a worker while it holds locks; how long its waiters waited then.
    fn kill(&mut self, worker: usize) -> Result<Duration, Failure> {
        let held = self.hold(worker)?;
        self.event(&format!("kill -9: {}", held.described()));
        let killed_at = self.crew.kill(worker)?;
        let most = self.lease + self.grace + SLACK;
        let passed_on = |crew: &mut Crew| Ok(held.passed_on(&crew.statement()?, |account| account.seen));
        let at = self.crew.until(self.screen, most, "the locks of the dead were to be given to others", passed_on)?;
        if at < killed_at {
            return failed(format!("{} lost its locks before it was killed", worker_name(worker)));
        }
        Ok(Duration::from_micros(at - killed_at))
    }

    fn kill_beside_a_daemon(&mut self) -> Result<(), Failure> {
        let took = self.kill(1)?;
        let at_once = took < self.lease / 2;
        let how = if at_once { "its daemon saw the connection close" } else { "not at once" };
        self.screen.detail(&format!("waiters have them {} later: {how}", span(took)));
        if !at_once {
            self.faults.push("the daemon on its host did not notice a death at once".into());
        }
        Ok(())
    }

    fn kill_elsewhere(&mut self) -> Result<(), Failure> {
        let took = self.kill(2)?;
        // A lease runs from the last heartbeat, and there are several to a lease.
        let by_lease = took >= self.lease / 2;
        let how = if by_lease { "no daemon there, the lease ran out" } else { "before its lease" };
        self.screen.detail(&format!("waiters have them {} later: {how}", span(took)));
        if !by_lease {
            self.faults.push("a death without a daemon was noticed before the lease ran out".into());
        }
        Ok(())
    }

    /// Stops a worker between its reading and its write until others have its accounts, then lets it write.
    fn pause(&mut self) -> Result<(), Failure> {
        let worker = 3;
        let held = self.hold(worker)?;
        self.event(&format!("SIGSTOP: {}", held.described()));
        let transfers = self.crew.statement()?.transfers;
        let paused = Instant::now();
        self.crew.signal(worker, libc::SIGSTOP)?;
        self.crew.watch(self.screen, self.lease + self.grace)?;
        let written = |crew: &mut Crew| Ok(held.passed_on(&crew.statement()?, |account| account.written));
        self.crew.until(self.screen, SLACK, "others were to use the accounts of the paused", written)?;
        self.crew.watch(self.screen, MEANWHILE)?;
        let meanwhile = self.crew.statement()?.transfers - transfers;
        self.event(&format!(
            "SIGCONT after {}: its lease is over, {} transfers went on meanwhile",
            span(paused.elapsed()),
            grouped(meanwhile)
        ));
        self.resume(&held)
    }

    fn resume(&mut self, held: &Held) -> Result<(), Failure> {
        self.crew.order(held.worker, &Order::Go)?;
        self.crew.signal(held.worker, libc::SIGCONT)?;
        let resumed = Instant::now();
        let wrote = |said: &Said| match *said {
            Said::Wrote(refusal) => Some(refusal),
            _ => None,
        };
        match self.crew.hear(self.screen, held.worker, "write what it began", wrote)? {
            Some(stale) => self.screen.detail(&format!(
                "its write is refused: token {}, account {} has seen {}",
                stale.token, stale.account, stale.seen
            )),
            None => {
                let text = self.screen.toned(Tone::Bad, "its stale write went through");
                self.screen.detail(&text);
                self.faults.push("the stale write of the paused worker went through".into());
            }
        }
        self.crew.order(held.worker, &Order::Want(held.accounts))?;
        let moved = |said: &Said| match *said {
            Said::Moved { incarnation } => Some(incarnation),
            _ => None,
        };
        let incarnation = self.crew.hear(self.screen, held.worker, "work again", moved)?;
        if incarnation == held.incarnation {
            self.faults.push("a session outlived its lease".into());
        }
        let what = format!("in session {incarnation} instead of {}", held.incarnation);
        self.screen.detail(&format!("it moves money again {} later, {what}", span(resumed.elapsed())));
        Ok(())
    }

    /// Kills the daemon of a switch at the hook: what decides, and its memory, are the kernel's.
    fn kill_daemon(&mut self) -> Result<(), Failure> {
        let epoch = highest_epoch(&self.crew.statement()?).0;
        let before = self.transfers_in(ALONE)?;
        self.event("kill -9: the switch's daemon; its program stays at the hook, with all locks");
        let daemon = self.switch.take().expect("it was started again after every end");
        let native = daemon.native;
        daemon.kill()?;
        let alone = self.transfers_in(ALONE)?;
        let time = span(ALONE);
        self.screen.detail(&format!(
            "it goes on alone: {} transfers in {time}, {} in the {time} before",
            grouped(alone),
            grouped(before)
        ));
        if alone == 0 {
            self.faults.push("without its daemon the switch granted nothing".into());
        }
        let daemon = Switch::start(self.files, native)?;
        self.event("the daemon is started again");
        if daemon.took_over() {
            self.screen.detail(&format!("it takes the running switch over, in the same epoch {epoch}"));
        } else {
            self.faults.push("the new daemon did not take the running switch over".into());
        }
        self.switch = Some(daemon);
        self.crew.watch(self.screen, ON_ITS_WAY)?;
        let now = highest_epoch(&self.crew.statement()?).0;
        if now != epoch {
            self.faults.push(format!("the switch went on in epoch {now}, not {epoch}"));
        }
        Ok(())
    }

    fn transfers_in(&mut self, time: Duration) -> Result<u64, Failure> {
        let before = self.crew.statement()?.transfers;
        self.crew.watch(self.screen, time)?;
        Ok(self.crew.statement()?.transfers - before)
    }

    /// Ends the switch with its memory, and starts it again.
    fn restart_switch(&mut self) -> Result<(), Failure> {
        let epoch = highest_epoch(&self.crew.statement()?).0;
        let switch = self.switch.take().expect("it was started again after every end");
        let native = switch.native;
        let ended_at = crate::system::now_us();
        let how = if switch.at_hook() {
            self.event("SIGTERM: the switch leaves the hook, and its memory of all locks is gone");
            switch.stop()?;
            "end"
        } else {
            self.event("kill -9: the switch, which has all locks in memory");
            switch.kill()?;
            "kill"
        };
        self.crew.watch(self.screen, DOWN)?;
        self.event("the switch is started again, knowing nothing of any lock");
        self.switch = Some(Switch::start(self.files, native)?);
        let risen = |crew: &mut Crew| Ok(Some(highest_epoch(&crew.statement()?)).filter(|(now, _)| *now > epoch));
        let most = self.lease + self.grace + SLACK;
        let (now, at) = self.crew.until(self.screen, most, "grants of a new epoch were to come", risen)?;
        self.screen.detail(&format!(
            "locks are granted again {} after the {how}, in epoch {now} after {epoch}",
            span(Duration::from_micros(at.saturating_sub(ended_at)))
        ));
        Ok(())
    }
}

/// The epoch of the highest token in the bank, and when the first of that epoch came.
fn highest_epoch(statement: &Statement) -> (u64, u64) {
    // docs/protocol.md, Glossary: the epoch is above tenure (32 bits) and sequence (8).
    let epochs = statement.accounts.iter().map(|account| (account.seen >> 40, account.seen_at_us));
    let highest = epochs.clone().map(|(epoch, _)| epoch).max().unwrap_or(0);
    let first = epochs.filter(|(epoch, _)| *epoch == highest).map(|(_, at)| at).min().unwrap_or(0);
    (highest, first)
}
