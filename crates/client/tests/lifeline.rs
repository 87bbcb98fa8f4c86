//! The control connection: greeting, names, its end with the session, and a daemon that restarts. A test file of its
//! own, for the socket's path comes from the environment.

mod support;

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::time::Duration;
use support::control::Daemon;
use support::{TestSwitch, eventually};
use wayside_client::SOCKET_VARIABLE;
use wayside_client::control::{Greeting, LISTING_MOST, ListRequest, Listing, Welcome, lifeline_text};

#[test]
fn the_lifeline_greets_lists_and_ends_with_its_session() {
    let path = std::env::temp_dir().join(format!("wayside-lifeline-{}.sock", std::process::id()));
    // SAFETY: the only test of this process, before it starts a thread.
    unsafe { std::env::set_var(SOCKET_VARIABLE, &path) };
    let switch = TestSwitch::start();
    let listener = UnixListener::bind(&path).unwrap();
    let (session, other) = (switch.session(), switch.session());
    let mut daemons = [Daemon::accept(&listener), Daemon::accept(&listener)];
    let greetings: Vec<Greeting> = daemons.iter_mut().map(Daemon::read).collect();
    let own = session.info().unwrap();
    let index = greetings.iter().position(|greeting| greeting.hello.handle == own.handle).expect("the session's");
    let daemon = &mut daemons[index];
    let hello = &greetings[index].hello;
    assert_eq!((&hello.lifeline, hello.pid), (&lifeline_text(own.lifeline), std::process::id()));
    assert!(hello.local);
    assert!(!session.has_lifeline(), "the daemon has not said yet that it accepts");
    daemon.write(&Welcome { ok: true });
    eventually(|| session.has_lifeline());
    assert!(!other.has_lifeline());
    daemons[1 - index].write(&Welcome { ok: true });
    eventually(|| other.has_lifeline());
    let daemon = &mut daemons[index];

    let guard = session.lock("schlüssel").shared().acquire().unwrap();
    let held = other.lock(42).acquire().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| session.lock(42).acquire().unwrap().release().unwrap());
        let listing = loop {
            daemon.write(&ListRequest { id: 3, list: true, waiting_us: None });
            let listing: Listing = daemon.read();
            if listing.entries.len() == 2 {
                break listing;
            }
        };
        assert_eq!(listing.id, 3);
        let of = |name: &str| listing.entries.iter().find(|entry| entry.name == name).expect("is listed");
        let (text, number) = (of("schlüssel"), of("42"));
        assert_eq!((text.mode.as_str(), text.state.as_str()), ("shared", "held"));
        assert_eq!((text.token.as_str(), text.name_id.len()), (guard.token().to_string().as_str(), 16));
        assert_eq!((number.mode.as_str(), number.state.as_str(), number.token.as_str()), ("exclusive", "waiting", ""));
        assert_eq!((number.slot, number.name_id.as_str()), (42, "000000000000002a"));
        held.release().unwrap();
        waiter.join().unwrap();
    });

    // What a stopped daemon does not read, it reads later. Were the connection closed meanwhile, it would take that for
    // the end of this process, and give away what is held here.
    let names: Vec<String> = (0..LISTING_MOST).map(|number| format!("{number:0>1000}")).collect();
    let many = session.lock_many(names.iter().map(String::as_str)).acquire().unwrap();
    daemon.write(&ListRequest { id: 5, list: true, waiting_us: None });
    std::thread::sleep(Duration::from_millis(500));
    daemon.write(&ListRequest { id: 6, list: true, waiting_us: None });
    let listing: Listing = daemon.read();
    assert_eq!((listing.id, listing.entries.len()), (5, LISTING_MOST));
    assert!(session.has_lifeline());
    drop(many);
    // Nor does a line that is too long, or none, make it close.
    daemon.stream.write_all(&[b'x'; 10_000]).unwrap();
    writeln!(daemon.stream).unwrap();
    daemon.write(&ListRequest { id: 7, list: true, waiting_us: None });
    while daemon.read::<Listing>().id != 7 {}

    // A daemon that goes and comes again is greeted again; what is no question is passed over.
    let mut again = {
        let [first, second] = daemons;
        drop(first);
        let again = Daemon::accept(&listener);
        eventually(|| session.has_lifeline() != other.has_lifeline());
        drop(second);
        [again, Daemon::accept(&listener)]
    };
    for daemon in &mut again {
        assert!(daemon.read::<Greeting>().hello.local);
        writeln!(daemon.stream, "{{\"no\":1}}").unwrap();
        daemon.write(&ListRequest { id: 4, list: true, waiting_us: None });
        assert_eq!(daemon.read::<Listing>().id, 4);
    }
    drop(guard);
    drop((session, other));
    assert!(again.iter_mut().all(Daemon::is_closed));
    std::fs::remove_file(path).unwrap();
}
