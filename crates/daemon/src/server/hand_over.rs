//! A switch that ends in order hands its memory to a standby, which goes on without asking anybody
//! (`controller/hand_over.rs` of the protocol): the connection between the two, and what is ended when.
//!
//! ```text
//!   standby                              who ends
//!     nonce ───────────────────────────►
//!           ◄─────────────────────────── nonce
//!           ◄─────────────────────────── message (`hand_over_line.rs`)
//!   outcome ───────────────────────────► ...
//! ```
//!
//! Invariants
//! * Where packets are signed, so is every message, by what the shard's switches share and nobody else knows, in its
//!   place in this connection.
//! * What is read last is read when no worker of this process runs any more, nor the program at the hook with a lease
//!   that it has looked at before.
//! * Whatever fails is no hand-over: the post is vacated, and who takes it asks all nodes.

use super::Server;
use super::controller::Inbox;
use super::etcd::Shard;
use super::hand_over_line::{Line, NONCE_BYTES, PATIENCE};
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use wayside_protocol::seal::Secret;

/// For all nodes to say that they would. One that does not know the question never does.
const ANSWERS: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);
/// Connections that have said nothing yet that can be believed, and the one that has.
const PLACES: usize = 64;
/// For a successor to take the post, before this switch vacates it.
const TAKING: Duration = Duration::from_millis(500);

/// Takes what other switches of the shard hand over, one after the other. For ever. `number`: this switch's own; `at`:
/// where they are to come, if that can be had.
pub async fn take_part(shard: Shard, number: u16, at: SocketAddrV4, secret: Option<Secret>, inbox: Inbox) {
    let (listener, address) = match listen(at).await {
        Ok(listening) => listening,
        Err(error) => return tracing::warn!(%error, %at, "nothing can be handed over to this switch"),
    };
    tracing::info!(%address, "hand-overs of other switches come here");
    shard.note_successor(number, address);
    serve(listener, secret, move |message| {
        let inbox = inbox.clone();
        async move { inbox.receive(message).await }
    })
    .await;
}

/// Has each message of a hand-over received. Less than [`PLACES`] of those who have said nothing yet that can be
/// believed keep nobody waiting; more do, for seconds each.
async fn serve<R, F>(listener: TcpListener, secret: Option<Secret>, receive: R)
where
    R: Fn(Vec<u8>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<bool, String>> + Send,
{
    let (places, turn) = (Arc::new(Semaphore::new(PLACES)), Arc::new(Mutex::new(())));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        let Ok((stream, from)) = listener.accept().await else {
            sleep(LOOK).await;
            continue;
        };
        let (turn, receive) = (Arc::clone(&turn), receive.clone());
        tokio::spawn(async move {
            if let Err(why) = take(stream, secret, &turn, receive).await {
                tracing::info!(%from, why, "no hand-over");
            }
            drop(place);
        });
    }
}

async fn take<F: Future<Output = Result<bool, String>>>(
    mut stream: TcpStream,
    secret: Option<Secret>,
    turn: &Mutex<()>,
    receive: impl Fn(Vec<u8>) -> F,
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    stream.set_nodelay(true).map_err(text)?;
    let (own, mut other) = (nonce()?, [0; NONCE_BYTES]);
    let greeting = async {
        stream.write_all(&own).await?;
        stream.read_exact(&mut other).await
    };
    timeout(PATIENCE, greeting).await.map_err(|_| "no greeting")?.map_err(text)?;
    let mut line = Line::new(stream, secret, [own, other]);
    let mut message = line.receive().await?;
    // Whoever had to wait may be gone by then.
    let Ok(_turn) = turn.try_lock() else {
        let busy = "another switch hands over".to_owned();
        line.answer(&Err(busy.clone())).await?;
        return Err(busy);
    };
    loop {
        let taken = receive(message).await;
        line.answer(&taken).await?;
        if taken? {
            return Ok(());
        }
        message = line.receive().await?;
    }
}

/// A standby at one of these addresses that takes the first message: the first in order. All are greeted at once: those
/// that were switches of this shard once are still among them.
async fn find(standbys: Vec<SocketAddrV4>, secret: Option<Secret>, opening: &[u8]) -> Result<Line<TcpStream>, String> {
    let greeted = standbys.into_iter().map(|address| (address, tokio::spawn(greet(address, secret))));
    let greeted: Vec<_> = greeted.collect();
    let mut why = "no other switch stands by, or none that knows how".to_owned();
    for (address, line) in greeted {
        let line = line.await.unwrap_or_else(|error| Err(error.to_string()));
        let taken = async {
            let mut line = line?;
            line.send(opening).await.map(|_| line)
        };
        match taken.await {
            Ok(line) => return Ok(line),
            Err(error) => why = format!("{address}: {error}"),
        }
    }
    Err(why)
}

async fn greet(address: SocketAddrV4, secret: Option<Secret>) -> Result<Line<TcpStream>, String> {
    let text = |error: std::io::Error| error.to_string();
    let (own, mut other) = (nonce()?, [0; NONCE_BYTES]);
    let greeting = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stream.read_exact(&mut other).await?;
        stream.write_all(&own).await?;
        Ok(stream)
    };
    let stream = timeout(PATIENCE, greeting).await.map_err(|_| "it does not answer")?.map_err(text)?;
    Ok(Line::new(stream, secret, [other, own]))
}

fn nonce() -> Result<[u8; NONCE_BYTES], String> {
    let bytes = super::random_bytes().map_err(|failure| failure.reason().to_owned())?;
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&bytes[..NONCE_BYTES]);
    Ok(nonce)
}

/// A listener, and where it is: at another port of that address if this one can't be had. The others are told which by
/// etcd; a firewall may let them through to the one that it knows only.
async fn listen(at: SocketAddrV4) -> std::io::Result<(TcpListener, SocketAddrV4)> {
    let listener = match TcpListener::bind(at).await {
        Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => {
            tracing::warn!(%error, %at, "hand-overs can't come here and come to another port; see hand_over_listen");
            TcpListener::bind((*at.ip(), 0)).await?
        }
        bound => bound?,
    };
    let port = listener.local_addr()?.port();
    Ok((listener, SocketAddrV4::new(*at.ip(), port)))
}

impl Server {
    /// Hands over to a standby, if there is one that can take it.
    ///
    /// # Errors
    /// Why not.
    pub async fn hand_over(&mut self) -> Result<(), String> {
        let Some((shard, number, secret)) = self.sharing.clone() else { return Err("it is alone".into()) };
        let mut copying = self.inbox.prepare().await?;
        let standbys = shard.successors(number).await.map_err(|error| error.to_string())?;
        let mut line = find(standbys, secret, &copying.opening()).await?;
        let (sender, mut messages) = mpsc::channel(16);
        let switch = self.switch.clone();
        let first = tokio::task::spawn_blocking(move || {
            // Whoever would take them may be gone.
            copying.send(&switch, |message| drop(sender.blocking_send(message)));
            copying
        });
        while let Some(message) = messages.recv().await {
            line.send(&message).await?;
        }
        let copying = first.await.map_err(|error| error.to_string())?;
        let asked = Instant::now();
        while !self.inbox.is_prepared().await {
            if asked.elapsed() > ANSWERS {
                return Err("a node does not say that it would follow".into());
            }
            sleep(LOOK).await;
        }
        let stopped = Instant::now();
        if !self.inbox.stop_serving().await {
            return Err("it does not serve any more".into());
        }
        self.end_workers();
        self.home.await_decisions().map_err(|error| error.to_string())?;
        let (sender, mut messages) = mpsc::unbounded_channel();
        if !self.inbox.hand_over(copying, sender).await {
            return Err("its memory is lost".into());
        }
        let mut all = false;
        while let Some(message) = messages.recv().await {
            all = line.send(&message).await?;
        }
        if !all {
            return Err("the standby waits for more".into());
        }
        tracing::info!(ms = stopped.elapsed().as_millis() as u64, "all locks were handed over");
        if timeout(TAKING, self.inbox.is_succeeded()).await.is_err() {
            return Err("the standby does not take the post".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Whichever port the kernel chooses.
    const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

    async fn pair(secrets: [Option<Secret>; 2]) -> (Line<TcpStream>, Line<TcpStream>) {
        let (listener, address) = listen(ANY).await.unwrap();
        let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
        let nonces = [[1; NONCE_BYTES], [2; NONCE_BYTES]];
        (Line::new(one.unwrap(), secrets[0], nonces), Line::new(other.unwrap().0, secrets[1], nonces))
    }

    async fn said(secrets: [Option<Secret>; 2]) -> Result<Vec<u8>, String> {
        let (mut one, mut other) = pair(secrets).await;
        let sent = tokio::spawn(async move { one.send(b"slots").await });
        let came = other.receive().await;
        drop(other);
        let _ = sent.await;
        came
    }

    #[tokio::test]
    async fn a_port_that_somebody_has_is_replaced_by_another_one() {
        let (has, at) = listen(ANY).await.unwrap();
        let (_other, elsewhere) = listen(at).await.unwrap();
        assert_eq!(elsewhere.ip(), at.ip());
        assert_ne!(elsewhere.port(), at.port());
        drop(has);
        let (_again, there) = listen(at).await.unwrap();
        assert_eq!(there, at);
    }

    /// As the switches that this one finds in etcd are: some have been gone for long. And strangers have connected.
    #[tokio::test]
    async fn neither_the_dead_nor_the_silent_keep_a_hand_over_waiting() {
        let secret = Some(Secret([7; 32]));
        let (listener, address) = listen(ANY).await.unwrap();
        let served = tokio::spawn(serve(listener, secret, |message| async move { Ok(message == b"the last") }));
        let mut silent = Vec::new();
        for _ in 0..PLACES / 2 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // It takes connections, and greets nobody.
        let (_deaf, nobody) = listen(ANY).await.unwrap();
        let standbys = [vec![nobody; 40], vec![address]].concat();
        let begun = Instant::now();
        let mut line = find(standbys, secret, b"the first").await.unwrap();
        assert!(begun.elapsed() < 20 * PATIENCE, "{:?}", begun.elapsed());
        assert_eq!(line.send(b"another").await, Ok(false));
        // One at a time.
        let mut other = greet(address, secret).await.unwrap();
        assert_eq!(other.send(b"the first").await, Err("the standby refuses".into()));
        assert_eq!(line.send(b"the last").await, Ok(true));
        assert!(find(vec![address], secret, b"the first").await.is_ok());
        assert_eq!(find(vec![nobody], secret, b"the first").await.err(), Some(format!("{nobody}: it does not answer")));
        served.abort();
    }

    #[tokio::test]
    async fn only_switches_of_the_shard_are_believed() {
        let secret = Some(Secret([7; 32]));
        assert_eq!(said([secret, secret]).await, Ok(b"slots".to_vec()));
        assert_eq!(said([None, None]).await, Ok(b"slots".to_vec()));
        for strange in [None, Some(Secret([8; 32]))] {
            assert_eq!(said([strange, secret]).await, Err("not signed by a switch of this shard".into()));
        }
    }
}
