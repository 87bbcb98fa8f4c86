//! In place of `secure.rs` where the client is built without the feature `tls`: it can tell a switch that wants a
//! secure connection, and no more.

use crate::credentials::Credentials;
use crate::enrolment::{Enrol, NotEnrolled, NotJoined, Renewal, Token};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;
use wayside_protocol::Time;
use wayside_protocol::seal::Enrolment;

const WHY: &str = "this program's Wayside client was built without the feature `tls`, by which hosts enrol";

/// Cannot.
pub(crate) fn enrol(_: &Credentials, _: Enrol) -> Result<(Time, Enrolment, Renewal), NotEnrolled> {
    Err(NotEnrolled::Denied(WHY.into()))
}

/// Cannot.
pub(crate) fn renew(_: &Credentials) -> Result<Renewal, NotJoined> {
    Err(NotJoined::Failed(WHY.into()))
}

/// Cannot.
pub(crate) fn with_certificate(_: Credentials, _: String) -> Result<Credentials, String> {
    Err(WHY.into())
}

/// Cannot.
///
/// # Errors
/// Always.
pub fn join(_: &Token, _: &str) -> Result<(SocketAddrV4, Credentials), NotJoined> {
    Err(NotJoined::Failed(WHY.into()))
}

/// Whether anything listens there.
pub(crate) fn enrols_at(address: SocketAddrV4) -> bool {
    TcpStream::connect_timeout(&address.into(), Duration::from_secs(2)).is_ok()
}
