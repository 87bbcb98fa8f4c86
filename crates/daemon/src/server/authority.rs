//! The switch's authority: signs for the hosts that it lets in, and for the switch itself at every start.
//!
//! Its key and certificate are made at the first start and kept in the state directory. Certificates have no end: hosts
//! with a wrong clock must be able to lock, and whom the switch does not want any more it asks for no longer
//! (`admission.rs`).

use crate::admission::Admission;
use crate::failure::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;
use wayside_client::enrolment::{PROTOCOL, SWITCH_NAME};

/// Private key, PKCS #8.
const KEY: &str = "authority.key";
const CERTIFICATE: &str = "authority.der";
/// An uncompressed point of P-256: what a host's public key is.
const POINT: usize = 65;

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub certificate: CertificateDer<'static>,
}

type Error = Box<dyn std::error::Error>;

impl Authority {
    /// That of these files, which are made if they are missing.
    pub fn open(admission: &Admission) -> Result<Authority, Failure> {
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
            let certificate = match admission.read(CERTIFICATE)? {
                Some(bytes) => CertificateDer::from(bytes),
                None => {
                    let certificate = own_parameters().self_signed(&key)?;
                    admission.write(CERTIFICATE, certificate.der())?;
                    certificate.der().clone()
                }
            };
            Ok(Authority { issuer: Issuer::new(own_parameters(), key), certificate })
        };
        open().map_err(|error| {
            Failure::unavailable(format!(
                "can't have the authority's key and certificate in the state directory: {error}; restore them from a copy, \
                 or remove the directory `enrolment` there: then every host has to join again"
            ))
        })
    }

    /// The certificate of a host with this public key, or None if that is no key.
    pub fn certificate_for(&self, key: &[u8], host: &str) -> Option<CertificateDer<'static>> {
        if key.len() != POINT || key[0] != 4 {
            return None;
        }
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, host);
        // As a client and nothing else: it can't speak as the switch.
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.signed_by(&HostKey(key), &self.issuer).ok().map(|certificate| certificate.der().clone())
    }

    /// For the listener: a key of its own, signed by the authority; clients show a certificate by it, or none.
    pub fn configuration(&self) -> Result<Arc<ServerConfig>, Failure> {
        let configuration = || -> Result<ServerConfig, Error> {
            let key = KeyPair::generate()?;
            let mut parameters = CertificateParams::new([SWITCH_NAME.into()])?;
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            let certificate = parameters.signed_by(&key, &self.issuer)?;
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.clone())?;
            let provider = Arc::new(default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()?;
            let mut configuration = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_client_cert_verifier(verifier)
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

fn own_parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "Wayside authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters
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
    use rustls::pki_types::{ServerName, UnixTime};

    fn authority(directory: &std::path::Path) -> Authority {
        Authority::open(&Admission::of(directory)).unwrap()
    }

    #[test]
    fn a_host_cannot_pass_for_the_switch_whatever_it_calls_itself() {
        let directory = tempfile::tempdir().unwrap();
        let authority = authority(directory.path());
        let key = KeyPair::generate().unwrap();
        let certificate = authority.certificate_for(key.public_key_raw(), SWITCH_NAME).unwrap();
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
        let certificate = after.certificate_for(key.public_key_raw(), "a").unwrap();
        let provider = Arc::new(default_provider());
        let hosts = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        hosts.verify_client_cert(&certificate, &[], UnixTime::now()).unwrap();
    }

    #[test]
    fn what_is_no_key_gets_no_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let authority = authority(directory.path());
        for key in [&[][..], &[4; 64], &[2; 65]] {
            assert!(authority.certificate_for(key, "a").is_none(), "{} bytes", key.len());
        }
    }
}
