//! Tasks: on whose behalf a lock is held or awaited. Deadlocks are cycles of tasks (docs/deadlocks.md).
//!
//! A request belongs to the task that made it: of a call that blocks its thread, unless that works for a [`Task`]; of a
//! future the [`Task`] that polls it, and nobody's that is known without one.
//!
//! As a number, which is all that a request keeps: 0 nobody known, a thread's id, or a [`Task`] with its top bit set.

use std::cell::Cell;
use std::fmt;
use std::future::{self, Future};
use std::marker::PhantomData;
use std::pin::pin;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Has the task for whose command a process runs: for its main thread that task waits. `wayside lock` sets it.
pub const TASK_VARIABLE: &str = "WAYSIDE_TASK";

const TASK: u64 = 1 << 63;

/// What the main thread is; 0: not known yet.
static MAIN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Of the calling thread; 0: not known yet.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// Something that stands still as a whole while it waits for a lock: usually an async task, or a job that several
/// threads do one after the other. Threads are tasks by themselves.
///
/// ```no_run
/// # async fn example(session: wayside_client::Session) -> Result<(), wayside_client::Error> {
/// use wayside_client::Task;
///
/// let transfer = async {
///     let from = session.lock("accounts/7").await?;
///     let to = session.lock("accounts/4").await?;
///     # drop((from, to));
///     Ok(())
/// };
/// Task::new().scope(transfer).await
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task(u64);

impl Task {
    /// One of its own: 63 random bits, so that it is one in all processes.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Task {
        Task(crate::engine::seed() | TASK)
    }

    /// Works for this task while it polls `future`: what is asked for there is asked for by the task.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        future::poll_fn(|context| {
            let _working = self.enter();
            future.as_mut().poll(context)
        })
        .await
    }

    /// The calling thread works for this task until the result is dropped.
    pub fn enter(self) -> Working {
        Working { before: CURRENT.replace(self.0), thread: PhantomData }
    }

    /// The task that the main thread of this process is: what a process that this one runs and waits for is to find in
    /// [`TASK_VARIABLE`].
    #[must_use]
    pub fn of_main_thread() -> Task {
        let new = Task::new();
        match MAIN.compare_exchange(0, new.0, Relaxed, Relaxed) {
            Ok(_) => new,
            Err(known) => Task(known),
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task/{:016x}", self.0)
    }
}

impl FromStr for Task {
    type Err = ();

    /// As it is displayed.
    fn from_str(text: &str) -> Result<Task, ()> {
        let task = text.strip_prefix("task/").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        task.map(Task).filter(|task| task.0 & TASK != 0 && task.to_string() == text).ok_or(())
    }
}

/// See [`Task::enter`].
#[must_use = "the thread works for itself again as soon as this is dropped"]
#[derive(Debug)]
pub struct Working {
    before: u64,
    /// To be dropped by the thread that made it.
    thread: PhantomData<*const ()>,
}

impl Drop for Working {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Whose a request is that blocks its thread.
#[inline]
pub(crate) fn of_thread() -> u64 {
    match CURRENT.get() {
        0 => find_thread(),
        task => task,
    }
}

#[cold]
fn find_thread() -> u64 {
    // SAFETY: a query of this thread.
    let id = unsafe { libc::gettid() } as u64;
    CURRENT.set(id);
    id
}

/// This process was forked: its thread is another one than the parent's that it is a copy of. Runs before anything else
/// does in the child.
pub(crate) fn forked() {
    MAIN.store(0, Relaxed);
    // What works for a task goes on doing so.
    let _ = CURRENT.try_with(|current| current.set(if current.get() & TASK == 0 { 0 } else { current.get() }));
}

/// Whose a request is that a future makes: the thread that polls it serves many.
#[inline]
pub(crate) fn of_future() -> u64 {
    let task = CURRENT.get();
    if task & TASK == 0 { 0 } else { task }
}

/// Reads the environment, before threads of the application may change it.
pub(crate) fn prepare() {
    parent();
}

fn parent() -> Option<Task> {
    static PARENT: OnceLock<Option<Task>> = OnceLock::new();
    *PARENT.get_or_init(|| std::env::var(TASK_VARIABLE).ok()?.parse().ok())
}

/// How a listing names a task, and the one that waits for it; both empty where there is none that is known.
pub(crate) fn shown(task: u64) -> (String, String) {
    let main = || Task::of_main_thread();
    match task {
        0 => (String::new(), String::new()),
        thread if thread == u64::from(std::process::id()) => {
            (main().to_string(), parent().map_or_else(String::new, |parent| parent.to_string()))
        }
        task if task & TASK != 0 => (Task(task).to_string(), String::new()),
        thread => (format!("thread/{thread}"), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_a_task_unless_it_works_for_one() {
        let thread = of_thread();
        assert_eq!((thread & TASK, of_future()), (0, 0));
        let (one, another) = (Task::new(), Task::new());
        assert_ne!(one, another);
        {
            let _one = one.enter();
            {
                let _another = another.enter();
                assert_eq!((of_thread(), of_future()), (another.0, another.0));
            }
            assert_eq!((of_thread(), of_future()), (one.0, one.0));
        }
        assert_eq!((of_thread(), of_future()), (thread, 0));
        assert_ne!(std::thread::spawn(of_thread).join().unwrap(), thread);
    }

    #[test]
    fn a_scope_is_a_task_while_it_is_polled_and_no_longer() {
        let task = Task::new();
        let mut polls = 0;
        let scope = task.scope(future::poll_fn(|context| {
            assert_eq!(of_future(), task.0);
            polls += 1;
            context.waker().wake_by_ref();
            if polls < 3 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        }));
        let mut scope = pin!(scope);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while scope.as_mut().poll(&mut context).is_pending() {
            assert_eq!(of_future(), 0);
        }
        assert_eq!(of_future(), 0);
    }

    #[test]
    fn a_task_is_written_in_one_way() {
        let task = Task::new();
        assert_eq!(task.to_string().parse(), Ok(task));
        for text in ["", "task/", "task/1", "thread/4711", "task/00000000000000ff", "task/FFFFFFFFFFFFFFFF"] {
            assert_eq!(text.parse::<Task>(), Err(()), "{text}");
        }
        assert_eq!(shown(0), (String::new(), String::new()));
        assert_eq!(shown(u64::from(std::process::id())).0, Task::of_main_thread().to_string());
        assert_eq!(shown(u64::from(std::process::id()) + 1).0, format!("thread/{}", std::process::id() + 1));
    }
}
