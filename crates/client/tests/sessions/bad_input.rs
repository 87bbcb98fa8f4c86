//! What cannot work says so, in time, and says what to do.

use crate::support::TestSwitch;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};
use wayside_client::{Error, Session};
use wayside_wire::{Header, kind, service};

#[test]
fn no_switch_is_unavailable_in_time() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for endpoint in [silent.local_addr().unwrap().to_string(), "127.0.0.1:9".into()] {
        let began = Instant::now();
        let error = Session::builder().endpoint(&endpoint).patience(Duration::from_millis(300)).connect().unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(1));
        let text = error.to_string();
        assert!(matches!(error, Error::Unavailable { .. }) && text.contains(&endpoint), "{text}");
        assert!(text.contains("wayside dev") && text.contains("WAYSIDE_ENDPOINTS"), "{text}");
    }
}

#[test]
fn a_second_endpoint_helps_where_the_first_is_stale() {
    let switch = TestSwitch::start();
    let endpoints = format!("127.0.0.1:9,{}", switch.address);
    Session::builder().endpoint(endpoints).patience(Duration::from_secs(10)).connect().unwrap();
}

#[test]
fn an_endpoint_that_leads_nowhere_is_passed_over() {
    let switch = TestSwitch::start();
    let endpoints = format!("no.such.host.invalid:1,{}", switch.address);
    drop(Session::connect(endpoints).unwrap().lock("a").try_lock().unwrap());
    assert!(matches!(Session::connect("no.such.host.invalid:1"), Err(Error::InvalidEndpoint(_))));
}

#[test]
fn a_switch_that_starts_late_is_found() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = socket.local_addr().unwrap().to_string();
    drop(socket);
    let session = Session::builder().endpoint(&endpoint).patience(Duration::from_secs(10)).begin().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let _switch = TestSwitch::start_on(UdpSocket::bind(&endpoint).unwrap());
    drop(session.lock("a").acquire().unwrap());
}

#[test]
fn names_that_are_none_are_refused() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let long = "n".repeat(10 << 20);
    for name in ["", long.as_str()] {
        assert!(matches!(session.lock(name).acquire(), Err(Error::InvalidName(_))));
        assert!(matches!(session.lock_many(["fine", name]).acquire(), Err(Error::InvalidName(_))));
    }
    assert!(matches!(session.lock(u64::MAX).acquire(), Err(Error::InvalidName(_))));
}

#[test]
fn endpoints_namespaces_and_numbers_that_are_none_are_refused() {
    assert!(matches!(Session::connect("nowhere:port"), Err(Error::InvalidEndpoint(_))));
    assert!(matches!(Session::connect("[::1]:7600"), Err(Error::InvalidEndpoint(_))));
    for namespace in ["", "longer than twenty-four bytes", "a\0b"] {
        let builder = Session::builder().endpoint("127.0.0.1:9").namespace(namespace);
        assert!(matches!(builder.connect(), Err(Error::InvalidNamespace(_))), "{namespace:?}");
    }
    let builder = Session::builder().endpoint("127.0.0.1:9").keep(1_000_001);
    assert!(matches!(builder.connect(), Err(Error::InvalidKeep(_))), "more than a session may hold");
}

#[test]
fn an_unknown_namespace_is_named() {
    let switch = TestSwitch::start();
    let error = switch.builder().namespace("elsewhere").connect().unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("elsewhere")), "{error}");
}

/// Well-formed and not: of other epochs, of unknown kinds, cut off, too long, answers that nobody asked for.
#[test]
fn garbage_from_the_switch_is_ignored() {
    let switch = TestSwitch::start();
    let session = switch.session();
    let guard = session.lock("a").acquire().unwrap();
    let info = session.info().unwrap();
    for kind in 0..=u8::MAX {
        for epoch in [0, info.epoch, info.epoch + 1] {
            let mut packet = [0u8; 1100];
            let header = Header {
                service: service::LOCK,
                kind,
                count: 1,
                destination: info.handle,
                epoch,
                namespace: info.namespace,
                source: 7,
                ..Header::default()
            };
            header.write(&mut packet);
            // A census, and what else may suspend or end something, is the switch's right.
            if ![kind::lock::CENSUS, kind::lock::ADOPT].contains(&kind) {
                for length in [0, 1, 31, 32, 63, 65, 1056, 1100] {
                    switch.send_everywhere(&packet[..length]);
                }
            }
        }
    }
    drop(session.lock("b").acquire().unwrap());
    assert!(!guard.is_lost());
}
