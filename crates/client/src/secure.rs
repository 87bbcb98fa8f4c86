//! The host's end of the secure connection: TLS 1.3, blocking, for threads of its own.

use crate::clock;
use crate::credentials::Credentials;
use crate::enrolment::{
    Answer, Enrol, Join, Joined, LONGEST_LINE, NotEnrolled, NotJoined, PROTOCOL, Question, Renew, Renewal, SWITCH_NAME,
    Token, hex, unhex,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wayside_protocol::Time;
use wayside_protocol::seal::Enrolment;
use wayside_wire::{Refusal, VERSION};

/// To connect, and for each part of an answer.
const PATIENCE: Duration = Duration::from_secs(2);

const ANOTHER: &str = "the switch answered another question";

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Begins a session; since when its lease runs, what it is, and how it stands with the host's certificate.
pub(crate) fn enrol(credentials: &Credentials, question: Enrol) -> Result<(Time, Enrolment, Renewal), NotEnrolled> {
    match ask(credentials, question.clone()) {
        // The namespace is not for everybody's version; a daemon that says so knows what it is told then.
        Err(NotEnrolled::Refused(Refusal::Version)) => ask(credentials, Enrol { packets: VERSION, ..question }),
        other => other,
    }
}

fn ask(credentials: &Credentials, question: Enrol) -> Result<(Time, Enrolment, Renewal), NotEnrolled> {
    let failed = |error: Failure| NotEnrolled::Failed(format!("enrolment at {}: {error}", credentials.enrol));
    let mut stream = as_host(credentials).and_then(|config| connect(credentials.enrol, config)).map_err(failed)?;
    let asked = clock::now();
    match exchange(&mut stream, &Question::Enrol(question)).map_err(failed)? {
        Answer::Enrolled(enrolled) => match enrolled.enrolment() {
            Some(enrolment) => Ok((asked, enrolment, enrolled.renewal)),
            None => Err(failed("the switch's answer makes no sense".into())),
        },
        Answer::Refused(reason) => Err(NotEnrolled::Refused(Refusal::try_from(reason).unwrap_or(Refusal::None))),
        Answer::Denied(why) => Err(NotEnrolled::Denied(why)),
        Answer::Joined(_) | Answer::Renewed(_) => Err(failed(ANOTHER.into())),
    }
}

/// Asks for the next certificate.
pub(crate) fn renew(credentials: &Credentials) -> Result<Renewal, NotJoined> {
    let failed = |error: Failure| NotJoined::Failed(format!("enrolment at {}: {error}", credentials.enrol));
    let mut stream = as_host(credentials).and_then(|config| connect(credentials.enrol, config)).map_err(failed)?;
    match exchange(&mut stream, &Question::Renew(Renew {})).map_err(failed)? {
        Answer::Renewed(renewal) => Ok(renewal),
        Answer::Denied(why) => Err(NotJoined::Denied(why)),
        Answer::Joined(_) | Answer::Enrolled(_) | Answer::Refused(_) => Err(failed(ANOTHER.into())),
    }
}

/// The same credentials with the next certificate, which can be used.
pub(crate) fn with_certificate(credentials: Credentials, certificate: String) -> Result<Credentials, String> {
    let credentials = Credentials { certificate, ..credentials };
    // What could not be used is not kept.
    as_host(&credentials).map(|_| credentials).map_err(|error| error.to_string())
}

/// Lets this host in: the switch's address, and what the host is to keep.
///
/// # Errors
/// [`NotJoined`].
pub fn join(token: &Token, host: &str) -> Result<(SocketAddrV4, Credentials), NotJoined> {
    let failed = |error: Failure| NotJoined::Failed(format!("enrolment at {}: {error}", token.address));
    let unspecified = |_| failed("no key could be made".into());
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).map_err(unspecified)?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random)
        .expect("it was made so a line above");
    let verifier = Arc::new(Pinned { pin: Some(token.pin), seen: Mutex::default() });
    let mut stream = as_stranger(verifier.clone()).and_then(|config| connect(token.address, config)).map_err(failed)?;
    let question = Join { secret: hex(&token.secret), key: hex(key.public_key().as_ref()), host: host.into() };
    let Joined { switch, certificate } = match exchange(&mut stream, &Question::Join(question)).map_err(failed)? {
        Answer::Joined(joined) => joined,
        Answer::Denied(why) => return Err(NotJoined::Denied(why)),
        Answer::Enrolled(_) | Answer::Refused(_) | Answer::Renewed(_) => return Err(failed(ANOTHER.into())),
    };
    let authority = verifier.seen().ok_or_else(|| failed("the switch showed no authority".into()))?;
    let credentials =
        Credentials { enrol: token.address, authority: hex(&authority), certificate, key: hex(document.as_ref()) };
    // What could not be used is not kept.
    as_host(&credentials).map_err(failed)?;
    Ok((switch, credentials))
}

/// Whether a switch enrols here: it shows an authority's certificate. Nothing is said to it.
pub(crate) fn enrols_at(address: SocketAddrV4) -> bool {
    let verifier = Arc::new(Pinned { pin: None, seen: Mutex::default() });
    let stream = as_stranger(verifier.clone()).and_then(|config| connect(address, config));
    let _ = stream.and_then(|mut stream| Ok(stream.conn.complete_io(&mut stream.sock)?));
    verifier.seen().is_some()
}

/// A host that has joined: it knows the switch by its authority, and shows its certificate.
fn as_host(credentials: &Credentials) -> Result<ClientConfig, Failure> {
    let bytes = |text: &str| unhex(text).ok_or("this host's credentials make no sense: join the switch again");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(bytes(&credentials.authority)?))?;
    let certificate = CertificateDer::from(bytes(&credentials.certificate)?);
    let key = PrivatePkcs8KeyDer::from(bytes(&credentials.key)?);
    let config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key.into())?;
    Ok(with_protocol(config))
}

fn as_stranger(verifier: Arc<Pinned>) -> Result<ClientConfig, Failure> {
    let config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(with_protocol(config))
}

fn with_protocol(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config
}

fn connect(address: SocketAddrV4, config: ClientConfig) -> Result<Stream, Failure> {
    let socket = TcpStream::connect_timeout(&address.into(), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let name = ServerName::try_from(SWITCH_NAME).expect("it is a name");
    Ok(StreamOwned::new(ClientConnection::new(Arc::new(config), name)?, socket))
}

fn exchange(stream: &mut Stream, question: &Question) -> Result<Answer, Failure> {
    let mut line = serde_json::to_vec(question)?;
    line.push(b'\n');
    stream.write_all(&line).and_then(|()| stream.flush()).map_err(in_words)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST_LINE as u64)).read_line(&mut answer).map_err(in_words)?;
    if answer.is_empty() {
        return Err("the switch closed the connection without an answer".into());
    }
    Ok(serde_json::from_str(&answer).map_err(|_| "the switch's answer is not understood; is it of another version?")?)
}

/// A time-out of a socket has no words of its own.
fn in_words(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("no answer within {PATIENCE:?}").into(),
        _ => error.into(),
    }
}

/// Believes a switch whose authority has the certificate with this SHA-256; with no pin, none.
#[derive(Debug)]
struct Pinned {
    pin: Option<[u8; 32]>,
    /// The authority's certificate as it was shown.
    seen: Mutex<Option<Vec<u8>>>,
}

impl Pinned {
    fn seen(&self) -> Option<Vec<u8>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn provider() -> Arc<CryptoProvider> {
        Arc::new(provider::default_provider())
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let wrong = |why: &str| rustls::Error::General(why.into());
        let [authority] = intermediates else { return Err(wrong("what answers there is no switch that enrols")) };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        // Signed by that authority, as a switch: a host's certificate is not.
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Pinned::provider())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?
            .verify_server_cert(end_entity, &[], name, ocsp, now)?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(authority.to_vec());
        if self.pin.is_none_or(|pin| ring::digest::digest(&ring::digest::SHA256, authority).as_ref() != pin) {
            return Err(wrong("the switch that answers is not the one that wrote the token"));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = Pinned::provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Pinned::provider().signature_verification_algorithms.supported_schemes()
    }
}
