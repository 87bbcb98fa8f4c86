//! Built without the feature `xdp`: there is nothing at the hook.

use crate::Error;
use crate::compare::{Options, Progress};
use crate::report::Mode;
use crate::ways::Contender;
use std::time::Duration;

/// Why nothing can be measured there.
pub(crate) fn missing() -> Option<String> {
    Some("this was built without the feature `xdp`, which needs clang and libelf".into())
}

/// Not called, since something is missing.
pub(crate) fn measure(
    _: &Options,
    _: Duration,
    _: &mut [Contender],
    _: &mut Progress,
    _: &mut Vec<Mode>,
) -> Result<(), Error> {
    missing().map_or(Ok(()), Err)
}
