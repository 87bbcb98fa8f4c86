//! Acquire and release through the switch allocate nothing once every buffer has been used. A test file of its own, for
//! it counts every allocation of the process, the background thread's too; the switch runs in another process.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use support::TestSwitch;
use wayside_client::{Session, Wait};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: u64 = 5_000;
/// Cycles, three locks each.
const WINDOW: u64 = 100;
const WINDOWS: usize = 2_000;
/// On a busy machine a thread may be away for so long that packets are sent again and meet their own agent; that path
/// may allocate. So a few windows must be clean: a data path that allocates leaves none.
const CLEAN: usize = 5;
/// Lengths of their texts: 4 to 93 bytes.
const NAMES: u64 = 20_000;
/// Set for the process that is the switch.
const BE_THE_SWITCH: &str = "WAYSIDE_TEST_BE_THE_SWITCH";

#[test]
fn the_data_path_does_not_allocate() {
    if std::env::var_os(BE_THE_SWITCH).is_some() {
        be_the_switch();
    }
    let (_switch, endpoint) = spawn_switch();
    let texts: Vec<String> = (0..NAMES).map(|id| format!("{id:0>0$}", id as usize % 90 + 4)).collect();
    for wait in [Wait::Spin, Wait::Block] {
        let session = Session::builder().endpoint(&endpoint).wait(wait).connect().unwrap();
        cycles(&session, &texts, WARM_UP);
        let mut windows = Vec::with_capacity(WINDOWS);
        while windows.len() < WINDOWS && windows.iter().filter(|&&count| count == 0).count() < CLEAN {
            windows.push(allocations_in(|| cycles(&session, &texts, WINDOW)));
        }
        assert!(windows.len() < WINDOWS, "{wait:?}: allocations per {WINDOW} cycles: {windows:?}");
    }
}

/// Ended with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Relaxed);
    work();
    ALLOCATIONS.load(Relaxed) - before
}

/// Names that nobody has just given back, by number and by text, exclusive and shared.
fn cycles(session: &Session, texts: &[String], count: u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..count {
        let round = NEXT.fetch_add(1, Relaxed);
        let exclusive = session.lock(round % NAMES).acquire().unwrap();
        let shared = session.lock(NAMES + round % NAMES).shared().acquire().unwrap();
        let text = session.lock(&texts[(round % NAMES) as usize]).acquire().unwrap();
        drop((exclusive, shared));
        text.release().unwrap();
    }
}

/// This very test again, as the switch; and its address.
fn spawn_switch() -> (Ended, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(BE_THE_SWITCH, "1")
        .args(["the_data_path_does_not_allocate", "--exact", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| line.strip_prefix(PREFIX).map(str::to_owned));
    (Ended(child), address.expect("the switch says where it is"))
}

fn be_the_switch() -> ! {
    let switch = TestSwitch::start();
    println!("\n{PREFIX}{}", switch.address);
    loop {
        std::thread::park();
    }
}

/// Before the switch's address, among whatever else the test harness prints.
const PREFIX: &str = "switch: ";
