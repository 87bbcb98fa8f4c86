//! A run of clients on several threads, phase by phase: all connect, then they warm up, are measured, and end.
//!
//! Invariant: the phase only goes on. The first failure is kept, and ends it for everybody.

use crate::{Error, cost};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const CONNECTING: u8 = 0;
const WARMING: u8 = 1;
const MEASURING: u8 = 2;
const OVER: u8 = 3;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What all threads of a run share.
pub(crate) struct Phases {
    phase: AtomicU8,
    connected: AtomicUsize,
    failure: Mutex<Option<Error>>,
    began: OnceLock<Instant>,
    counted: OnceLock<Instant>,
}

/// How long what counts took, and the processor time of clients and servers meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) measured: Duration,
    pub(crate) client_cpu: Duration,
    pub(crate) server_cpu: Duration,
    /// Of the servers, once all clients were connected and at work.
    pub(crate) server_threads: u64,
}

/// How long a run is to take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

impl Phases {
    pub(crate) fn new() -> Phases {
        Phases {
            phase: CONNECTING.into(),
            connected: 0.into(),
            failure: Mutex::new(None),
            began: OnceLock::new(),
            counted: OnceLock::new(),
        }
    }

    /// Runs `thread` on so many threads, each told its number, and leads them through all phases; `servers` are whose
    /// processor time counts.
    ///
    /// # Errors
    /// The first failure of any of them.
    pub(crate) fn drive<T: Send>(
        self,
        threads: usize,
        span: Span,
        servers: &[u32],
        thread: impl Fn(&Phases, usize) -> T + Sync,
    ) -> Result<(Vec<T>, Times), Error> {
        let (ends, times) = thread::scope(|scope| {
            let (phases, thread) = (&self, &thread);
            let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || thread(phases, number))).collect();
            let times = self.lead(threads.len(), span, servers);
            (threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>(), times)
        });
        if ends.iter().any(Result::is_err) {
            self.fail("a thread of clients panicked".into());
        }
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(why),
            None => Ok((ends.into_iter().flatten().collect(), times)),
        }
    }

    fn lead(&self, threads: usize, span: Span, servers: &[u32]) -> Times {
        let began = Instant::now();
        while self.connected.load(SeqCst) < threads && !self.is_over() {
            if began.elapsed() > PATIENCE {
                self.fail("the service does not take all clients".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        // A failure may have ended it, and stays.
        let go_on = |from, to| self.phase.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        self.began.get_or_init(Instant::now);
        if !go_on(CONNECTING, WARMING) {
            return Times::default();
        }
        thread::sleep(span.warm_up);
        let before = (cost::own(), cost::of_processes(servers));
        let counted = *self.counted.get_or_init(Instant::now);
        go_on(WARMING, MEASURING);
        thread::sleep(span.measured);
        go_on(MEASURING, OVER);
        Times {
            measured: counted.elapsed(),
            client_cpu: cost::own() - before.0,
            server_cpu: cost::of_processes(servers).time.saturating_sub(before.1.time),
            server_threads: before.1.threads,
        }
    }

    /// Runs a thread's clients, on a runtime of its own.
    pub(crate) fn run(&self, clients: impl Future<Output = Result<(), Error>>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
            let done = runtime.block_on(clients);
            // What libraries still have under way, such as deletions in the background, is done in a moment.
            runtime.shutdown_timeout(Duration::from_millis(100));
            done
        });
        if let Err(why) = outcome {
            self.fail(why);
        }
    }

    /// This thread's clients are connected: waits for those of the others.
    pub(crate) async fn connected(&self) {
        self.connected.fetch_add(1, SeqCst);
        while self.is_in(CONNECTING) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn is_in(&self, phase: u8) -> bool {
        self.phase.load(SeqCst) == phase
    }

    /// Whether what ends now counts.
    pub(crate) fn counts(&self) -> bool {
        self.is_in(MEASURING)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_in(OVER)
    }

    /// Since clients began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Since what counts began.
    pub(crate) fn counted(&self) -> Duration {
        self.counted.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    fn fail(&self, why: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.phase.store(OVER, SeqCst);
    }
}
