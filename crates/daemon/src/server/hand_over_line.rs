//! How the messages of a hand-over go (`hand_over.rs`): length, bytes, tag; and a byte that answers. Nothing of it is
//! believed before its tag has been looked at but the length, which has a bound.

use ring::hmac;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use wayside_protocol::controller::LONGEST_MESSAGE;
use wayside_protocol::seal::Secret;

pub const NONCE_BYTES: usize = 16;
pub const TAG_BYTES: usize = 16;

/// What a standby says to a message.
const TAKEN: u8 = 0;
const ALL_TAKEN: u8 = 1;
const REFUSED: u8 = 2;

/// For a standby to be there, and to take a message.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Between two messages: all nodes are asked meanwhile whether they would follow.
const SILENCE: Duration = Duration::from_secs(5);

/// One end of a connection.
pub struct Line<S> {
    stream: S,
    key: Option<hmac::Key>,
    messages: u64,
}

impl<S> Line<S> {
    /// `nonces`: the standby's, and that of who ends.
    pub fn new(stream: S, secret: Option<Secret>, nonces: [[u8; NONCE_BYTES]; 2]) -> Line<S> {
        let key = secret.map(|Secret(secret)| {
            let shared = hmac::Key::new(hmac::HMAC_SHA256, &secret);
            let of_this_line = hmac::sign(&shared, &[b"wayside hand-over".as_slice(), &nonces.concat()].concat());
            hmac::Key::new(hmac::HMAC_SHA256, of_this_line.as_ref())
        });
        Line { stream, key, messages: 0 }
    }

    /// What goes behind the next message, whichever way it goes; zeros where packets are not signed.
    pub fn tag(&mut self, message: &[u8]) -> [u8; TAG_BYTES] {
        self.messages += 1;
        let mut tag = [0; TAG_BYTES];
        if let Some(key) = &self.key {
            let mut context = hmac::Context::with_key(key);
            context.update(&self.messages.to_be_bytes());
            context.update(message);
            tag.copy_from_slice(&context.sign().as_ref()[..TAG_BYTES]);
        }
        tag
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// True: that was all.
    pub async fn send(&mut self, message: &[u8]) -> Result<bool, String> {
        let tag = self.tag(message);
        let exchange = async {
            self.stream.write_all(&(message.len() as u32).to_be_bytes()).await?;
            self.stream.write_all(message).await?;
            self.stream.write_all(&tag).await?;
            self.stream.read_u8().await
        };
        match timeout(PATIENCE, exchange).await {
            Ok(Ok(TAKEN)) => Ok(false),
            Ok(Ok(ALL_TAKEN)) => Ok(true),
            Ok(Ok(_)) => Err("the standby refuses".into()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the standby does not answer".into()),
        }
    }

    /// What came of a message.
    pub async fn answer(&mut self, taken: &Result<bool, String>) -> Result<(), String> {
        let said = match taken {
            Ok(false) => TAKEN,
            Ok(true) => ALL_TAKEN,
            Err(_) => REFUSED,
        };
        self.stream.write_u8(said).await.map_err(|error| error.to_string())
    }
}

impl<S: AsyncRead + Unpin> Line<S> {
    /// The next message.
    pub async fn receive(&mut self) -> Result<Vec<u8>, String> {
        let text = |error: std::io::Error| error.to_string();
        let length = timeout(SILENCE, self.stream.read_u32()).await.map_err(|_| "nothing comes")?.map_err(text)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST_MESSAGE);
        let mut message = vec![0; length.ok_or("longer than any message")?];
        let mut tag = [0; TAG_BYTES];
        let rest = async {
            self.stream.read_exact(&mut message).await?;
            self.stream.read_exact(&mut tag).await
        };
        timeout(PATIENCE, rest).await.map_err(|_| "half a message")?.map_err(text)?;
        let made = self.tag(&message);
        let same = made.iter().zip(&tag).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0;
        if same { Ok(message) } else { Err("not signed by a switch of this shard".into()) }
    }
}
