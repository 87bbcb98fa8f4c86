//! What the switch's program costs traffic that is none of its business: round trips and bulk through its port, with
//! and without it, in turn. `cargo run --release -p wayside-daemon --features xdp --example passing`, as root.
//!
//! Two hosts joined by veth, client and server on one processor. veth itself takes another way once anything is
//! attached, so a program that passes everything is measured as well: the rest is the switch's.

#[cfg(not(feature = "xdp"))]
fn main() {
    eprintln!("passing: this measures XDP; build it with --features xdp");
    std::process::exit(64);
}

#[cfg(feature = "xdp")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    measured::run()
}

#[cfg(feature = "xdp")]
mod measured {
    use std::error::Error;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::thread;
    use std::time::{Duration, Instant};
    use wayside_hosts::{Host, Program};
    use wayside_switch::xdp::interfaces::{self, Mode};
    use wayside_switch::xdp::{Hook, Options};
    use wayside_switch::{QueueConfig, StoreConfig, SwitchConfig};

    const ROUNDS: usize = 31;
    const ROUND_TRIPS: usize = 400;
    const BULK: usize = 8 << 20;
    const ADDRESS: &str = "10.81.0.1";
    /// Longer than a round trip takes, and a packet that is lost while programs change.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// What is attached to the switch's port.
    #[derive(Clone, Copy, PartialEq)]
    enum Attached {
        Nothing,
        Pass,
        Native,
        Generic,
    }

    const WAYS: [(&str, Attached); 4] = [
        ("nothing attached", Attached::Nothing),
        ("a program that passes all, native", Attached::Pass),
        ("the switch's, native", Attached::Native),
        ("the switch's, generic", Attached::Generic),
    ];
    const KINDS: [&str; 3] = ["UDP round trip, us", "TCP round trip, us", "TCP bulk, ns a KiB"];

    pub fn run() -> Result<(), Box<dyn Error>> {
        let (switch, client) = (Host::new()?, Host::new()?);
        client.join("eth0", &switch, "port0", 1)?;
        switch.ip(&format!("addr add {ADDRESS}/24 dev port0"))?;
        client.ip("addr add 10.81.0.2/24 dev eth0")?;
        let directory = std::path::PathBuf::from(format!("/sys/fs/bpf/wayside-passing-{}", std::process::id()));
        let options = Options {
            listen: format!("{ADDRESS}:7600").parse()?,
            config: SwitchConfig { slots: 1 << 16, max_handle: 1_000 },
            store: StoreConfig::default(),
            queues: QueueConfig::default(),
            directory: directory.clone(),
        };
        let (mut hook, _memory) = Hook::load(&options)?;
        let port = switch.within(interfaces::list)?.into_iter().find(|port| port.name == "port0").expect("joined");

        pin();
        let (udp, listener) = switch.within(|| {
            Ok::<_, std::io::Error>((UdpSocket::bind((ADDRESS, 9000))?, TcpListener::bind((ADDRESS, 9001))?))
        })?;
        thread::spawn(move || serve_udp(&udp));
        thread::spawn(move || serve_tcp(&listener));
        client.move_here()?;
        let udp = UdpSocket::bind("10.81.0.2:0")?;
        udp.connect((ADDRESS, 9000))?;
        udp.set_read_timeout(Some(PATIENCE))?;
        let mut tcp = TcpStream::connect((ADDRESS, 9001))?;
        tcp.set_nodelay(true)?;

        // By way and kind, a figure a round.
        let mut figures = vec![vec![Vec::new(); KINDS.len()]; WAYS.len()];
        for round in 0..=ROUNDS {
            for turn in 0..WAYS.len() {
                let way = (turn + round) % WAYS.len();
                let attached = WAYS[way].1;
                let mut passes: Vec<Program> = Vec::new();
                let mode = match attached {
                    Attached::Native => Some(Mode::Native),
                    Attached::Generic => Some(Mode::Generic),
                    Attached::Nothing | Attached::Pass => None,
                };
                if let Some(mode) = mode {
                    switch.within(|| hook.attach(std::slice::from_ref(&port), &[mode]))?;
                }
                if attached == Attached::Pass {
                    passes.push(switch.pass("port0")?);
                }
                if matches!(attached, Attached::Pass | Attached::Native) {
                    passes.push(client.pass("eth0")?);
                }
                let found = [udp_round_trips(&udp)?, tcp_round_trips(&mut tcp)?, bulk(&mut tcp)?];
                // The first round warms up.
                if round > 0 {
                    for (kind, figure) in found.into_iter().enumerate() {
                        figures[way][kind].push(figure);
                    }
                }
                hook.detach();
            }
        }
        hook.remove();
        let _ = std::fs::remove_dir(directory);
        report(&figures);
        Ok(())
    }

    /// Medians over the rounds, and the ratio to the same round with nothing attached: median, and the tenth and
    /// ninetieth of a hundred.
    fn report(figures: &[Vec<Vec<f64>>]) {
        println!("{ROUNDS} rounds, {ROUND_TRIPS} round trips of 64 bytes and {} MiB each", BULK >> 20);
        for (kind, name) in KINDS.iter().enumerate() {
            println!("{name}");
            for (way, (attached, _)) in WAYS.iter().enumerate() {
                let ratios = figures[way][kind].iter().zip(&figures[0][kind]).map(|(one, bare)| one / bare).collect();
                let [low, median, high] = at(ratios, [0.1, 0.5, 0.9]);
                let [figure] = at(figures[way][kind].clone(), [0.5]);
                println!("  {attached:<36}{figure:>9.2}{median:>8.2}x  ({low:.2} to {high:.2})");
            }
        }
    }

    fn at<const N: usize>(mut figures: Vec<f64>, shares: [f64; N]) -> [f64; N] {
        figures.sort_by(f64::total_cmp);
        shares.map(|share| figures[((figures.len() - 1) as f64 * share).round() as usize])
    }

    fn micros(time: Duration) -> f64 {
        time.as_nanos() as f64 / 1e3
    }

    /// The median.
    fn udp_round_trips(socket: &UdpSocket) -> std::io::Result<f64> {
        let mut bytes = [7; 64];
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let began = Instant::now();
            socket.send(&bytes)?;
            socket.recv(&mut bytes)?;
            times.push(micros(began.elapsed()));
        }
        Ok(at(times, [0.5])[0])
    }

    fn tcp_round_trips(stream: &mut TcpStream) -> std::io::Result<f64> {
        let mut bytes = [1; 64];
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let began = Instant::now();
            stream.write_all(&bytes)?;
            stream.read_exact(&mut bytes)?;
            times.push(micros(began.elapsed()));
        }
        Ok(at(times, [0.5])[0])
    }

    /// A byte of 2 says that much follows; the answer is 64 bytes.
    fn bulk(stream: &mut TcpStream) -> std::io::Result<f64> {
        let bytes = vec![2; BULK];
        let began = Instant::now();
        stream.write_all(&bytes)?;
        stream.read_exact(&mut [0; 64])?;
        Ok(began.elapsed().as_nanos() as f64 / (BULK >> 10) as f64)
    }

    fn serve_udp(socket: &UdpSocket) {
        let mut bytes = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            if socket.send_to(&bytes[..length], from).is_err() {
                return;
            }
        }
    }

    fn serve_tcp(listener: &TcpListener) {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut bytes = vec![0; BULK];
        while stream.read_exact(&mut bytes[..64]).is_ok() {
            if bytes[0] == 2 && stream.read_exact(&mut bytes[64..]).is_err() {
                return;
            }
            if stream.write_all(&bytes[..64]).is_err() {
                return;
            }
        }
    }

    /// Keeps this thread, and those that it starts, on one processor.
    fn pin() {
        // SAFETY: a set of our own, of the size that is told.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}
