//! The switch's authority: signs for the hosts that it lets in, and for the switch itself at every start.
//!
//! Its key and certificate are made at the first start and kept in the state directory. They are good for ten years,
//! and so is what the switch itself shows; a host's certificate has an end of its own, which the switch's clock counts.
//! All begin long ago: hosts whose clock is at its beginning must be able to lock.

use crate::admission::Admission;
use crate::failure::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use wayside_client::enrolment::{PROTOCOL, SWITCH_NAME};

/// Private key, PKCS #8.
const KEY: &str = "authority.key";
const CERTIFICATE: &str = "authority.der";
/// When that certificate ends, in seconds since 1970.
const END: &str = "authority.end";
/// Of the authority's certificate.
pub const LIFETIME: Duration = Duration::from_secs(3_652 * 24 * 3_600);
/// When the beginning of 1975 was: here all certificates begin.
const BEGINNING: Duration = Duration::from_secs(157_766_400);
/// A time at which every certificate is good that ever was.
const EARLY: UnixTime = UnixTime::since_unix_epoch(BEGINNING.saturating_add(Duration::from_secs(24 * 3_600)));
/// An uncompressed point of P-256: what a host's public key is.
const POINT: usize = 65;

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub certificate: CertificateDer<'static>,
    /// When its certificate ends, since 1970.
    ends: Duration,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// A host's certificate.
pub struct Issued {
    pub certificate: CertificateDer<'static>,
    /// When it ends, in seconds since 1970.
    pub expires: u64,
}

type Error = Box<dyn std::error::Error>;

impl Authority {
    /// The first is its private key.
    pub const FILES: [&str; 3] = [KEY, CERTIFICATE, END];

    /// That of these files, which are made if they are missing.
    pub fn open(admission: &Admission, now: SystemTime) -> Result<Authority, Failure> {
        let now = since_1970(now);
        let open = || -> Result<Authority, Error> {
            admission.make()?;
            let key = match admission.read(KEY)? {
                Some(bytes) => KeyPair::try_from(bytes.as_slice())?,
                None => {
                    let key = KeyPair::generate()?;
                    admission.write(KEY, key.serialized_der())?;
                    key
                }
            };
            let end = admission.read(END)?.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
            let (certificate, ends) = match (admission.read(CERTIFICATE)?, end.map(Duration::from_secs)) {
                (Some(bytes), Some(ends)) => (CertificateDer::from(bytes), ends),
                _ => {
                    let ends = Duration::from_secs((now + LIFETIME).as_secs());
                    let certificate = own_parameters(ends)?.self_signed(&key)?;
                    admission.write(CERTIFICATE, certificate.der())?;
                    admission.write(END, ends.as_secs().to_string().as_bytes())?;
                    (certificate.der().clone(), ends)
                }
            };
            let mut roots = RootCertStore::empty();
            roots.add(certificate.clone())?;
            let provider = Arc::new(default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()?;
            Ok(Authority { issuer: Issuer::new(own_parameters(ends)?, key), certificate, ends, verifier })
        };
        let authority = open().map_err(|error| {
            Failure::unavailable(format!(
                "can't have the authority's key and certificate in the state directory: {error}; restore them from a copy, \
                 or remove the directory `enrolment` there: then every host has to join again"
            ))
        })?;
        if authority.ends <= now {
            return Err(Failure::unavailable(
                "the certificate of the switch's authority has ended, ten years after it was made: remove the directory \
                 `enrolment` in the state directory, start again, and let every host join again",
            ));
        }
        if authority.ends <= now + LIFETIME / 10 {
            let days = (authority.ends - now).as_secs() / (24 * 3_600);
            tracing::warn!(
                days,
                "the certificate of the switch's authority ends soon; every host will have to join again"
            );
        }
        Ok(authority)
    }

    /// The certificate of a host with this public key, good for `lifetime`, or None if that is no key.
    pub fn certificate_for(&self, key: &[u8], host: &str, now: SystemTime, lifetime: Duration) -> Option<Issued> {
        if key.len() != POINT || key[0] != 4 {
            return None;
        }
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, host);
        // As a client and nothing else: it can't speak as the switch.
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let ends = (since_1970(now) + lifetime).min(self.ends);
        bound(&mut parameters, ends).ok()?;
        let certificate = parameters.signed_by(&HostKey(key), &self.issuer).ok()?;
        Some(Issued { certificate: certificate.der().clone(), expires: ends.as_secs() })
    }

    /// The next certificate for the key of this one, which the authority has signed.
    pub fn renewed(
        &self,
        certificate: &CertificateDer<'_>,
        host: &str,
        now: SystemTime,
        lifetime: Duration,
    ) -> Option<Issued> {
        let key = key_of(certificate)?;
        // What goes before the point says that it is one.
        self.certificate_for(key.get(key.len().checked_sub(POINT)?..)?, host, now, lifetime)
    }

    /// Whether a certificate that the authority has signed is not over at this time.
    pub fn is_good(&self, certificate: &CertificateDer<'_>, at: SystemTime) -> bool {
        let at = UnixTime::since_unix_epoch(since_1970(at).max(Duration::from_secs(EARLY.as_secs())));
        self.verifier.verify_client_cert(certificate, &[], at).is_ok()
    }

    /// For the listener: a key of its own, signed by the authority; clients show a certificate by it, or none.
    pub fn configuration(&self) -> Result<Arc<ServerConfig>, Failure> {
        let configuration = || -> Result<ServerConfig, Error> {
            let key = KeyPair::generate()?;
            let mut parameters = CertificateParams::new([SWITCH_NAME.into()])?;
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            bound(&mut parameters, self.ends)?;
            let certificate = parameters.signed_by(&key, &self.issuer)?;
            let mut configuration = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()?
                .with_client_cert_verifier(Arc::new(Ageless(self.verifier.clone())))
                .with_single_cert(
                    vec![certificate.der().clone(), self.certificate.clone()],
                    PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
                )?;
            configuration.alpn_protocols = vec![PROTOCOL.to_vec()];
            // A session's secret under a ticket's key would be as secret as that key; a handshake takes a millisecond.
            configuration.send_tls13_tickets = 0;
            Ok(configuration)
        };
        configuration().map(Arc::new).map_err(|error| Failure::unavailable(format!("can't enrol hosts: {error}")))
    }
}

/// Takes what the authority has signed, however long ago: that its certificate has ended, a host is told by an answer,
/// which says what to do. An alert of TLS says less, and may be lost with its connection.
#[derive(Debug)]
struct Ageless(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Ageless {
    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.verify_client_cert(end_entity, intermediates, EARLY)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// The public key that a certificate is for: the host, whichever of its certificates it shows.
pub fn key_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    ParsedCertificate::try_from(certificate).ok().map(|parsed| parsed.subject_public_key_info().to_vec())
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Good from the beginning to `ends`, since 1970.
fn bound(parameters: &mut CertificateParams, ends: Duration) -> Result<(), Error> {
    let at = |time: Duration| OffsetDateTime::from_unix_timestamp(i64::try_from(time.as_secs())?).map_err(Error::from);
    (parameters.not_before, parameters.not_after) = (at(BEGINNING)?, at(ends)?);
    Ok(())
}

fn own_parameters(ends: Duration) -> Result<CertificateParams, Error> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "Wayside authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    bound(&mut parameters, ends)?;
    Ok(parameters)
}

/// A public key whose private one only the host has.
struct HostKey<'a>(&'a [u8]);

impl PublicKeyData for HostKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::ServerName;

    const DAY: Duration = Duration::from_secs(24 * 3_600);

    fn authority(directory: &std::path::Path) -> Authority {
        Authority::open(&Admission::of(directory), SystemTime::now()).unwrap()
    }

    #[test]
    fn a_host_cannot_pass_for_the_switch_whatever_it_calls_itself() {
        let directory = tempfile::tempdir().unwrap();
        let authority = authority(directory.path());
        let key = KeyPair::generate().unwrap();
        let certificate =
            authority.certificate_for(key.public_key_raw(), SWITCH_NAME, SystemTime::now(), DAY).unwrap().certificate;
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let roots = Arc::new(roots);
        let provider = Arc::new(default_provider());
        let hosts = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build().unwrap();
        hosts.verify_client_cert(&certificate, &[], UnixTime::now()).unwrap();
        let switches = WebPkiServerVerifier::builder_with_provider(roots, provider).build().unwrap();
        let name = ServerName::try_from(SWITCH_NAME).unwrap();
        switches.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now()).unwrap_err();
    }

    #[test]
    fn the_authority_is_the_same_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let (before, after) = (authority(directory.path()), authority(directory.path()));
        assert_eq!(before.certificate, after.certificate);
        let mut roots = RootCertStore::empty();
        roots.add(before.certificate).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = after.certificate_for(key.public_key_raw(), "a", SystemTime::now(), DAY).unwrap().certificate;
        let provider = Arc::new(default_provider());
        let hosts = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        hosts.verify_client_cert(&certificate, &[], UnixTime::now()).unwrap();
    }

    #[test]
    fn what_is_no_key_gets_no_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let authority = authority(directory.path());
        for key in [&[][..], &[4; 64], &[2; 65]] {
            assert!(authority.certificate_for(key, "a", SystemTime::now(), DAY).is_none(), "{} bytes", key.len());
        }
    }

    #[test]
    fn certificates_end_and_are_renewed_for_the_same_key() {
        let directory = tempfile::tempdir().unwrap();
        let authority = authority(directory.path());
        let key = KeyPair::generate().unwrap();
        let begun = SystemTime::now();
        let first = authority.certificate_for(key.public_key_raw(), "a", begun, DAY).unwrap().certificate;
        assert!(authority.is_good(&first, begun) && authority.is_good(&first, begun + DAY / 2));
        assert!(!authority.is_good(&first, begun + DAY + Duration::from_secs(1)));
        // By a clock that is at its beginning.
        assert!(authority.is_good(&first, UNIX_EPOCH));
        let second = authority.renewed(&first, "a", begun + DAY / 2, DAY).unwrap();
        assert!(authority.is_good(&second.certificate, begun + DAY + DAY / 4));
        assert_eq!(key_of(&first), key_of(&second.certificate));
        assert_eq!(second.expires, since_1970(begun + DAY / 2 + DAY).as_secs());
        // None outlives the authority.
        let late = authority.renewed(&first, "a", begun + LIFETIME - DAY / 2, DAY).unwrap();
        assert_eq!(late.expires, authority.ends.as_secs());
    }

    #[test]
    fn who_has_ended_is_still_known_and_who_was_never_signed_for_is_not() {
        let one = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let (authority, stranger) = (authority(one.path()), self::authority(other.path()));
        let key = KeyPair::generate().unwrap();
        let ended = |by: &Authority| by.certificate_for(key.public_key_raw(), "a", UNIX_EPOCH + BEGINNING, 3 * DAY);
        let verifier = Ageless(authority.verifier.clone());
        let now = UnixTime::now();
        verifier.verify_client_cert(&ended(&authority).unwrap().certificate, &[], now).unwrap();
        assert!(!authority.is_good(&ended(&authority).unwrap().certificate, SystemTime::now()));
        verifier.verify_client_cert(&ended(&stranger).unwrap().certificate, &[], now).unwrap_err();
    }

    #[test]
    fn the_authority_ends_after_ten_years_and_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let admission = Admission::of(directory.path());
        let begun = SystemTime::now();
        let first = Authority::open(&admission, begun).unwrap();
        assert_eq!(first.ends, Duration::from_secs(since_1970(begun + LIFETIME).as_secs()));
        let again = Authority::open(&admission, begun + LIFETIME - DAY).unwrap();
        assert_eq!(again.certificate, first.certificate);
        let failure = Authority::open(&admission, begun + LIFETIME + DAY).err().unwrap();
        assert!(failure.message.contains("let every host join again"), "{failure}");
    }
}
