//! Instead of `hook.rs`, where XDP is not built in.

use super::{Conditions, Entry};
use crate::Error;

pub(super) fn at_hook(_: &Conditions<'_>, _: usize) -> Result<Entry, Error> {
    Ok(Entry::LeftOut("this was built without the feature `xdp`, which needs clang and libelf".into()))
}
