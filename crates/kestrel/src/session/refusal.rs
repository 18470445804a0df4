//! Refusals by the kernel and their meaning: that it lacks what nothing can do without, that this process may not, or that another way may do.

use kestrel_catalog::Error;
use kestrel_kernel::Host;
use kestrel_kernel::feature::{Feature, Features, Support};

/// Features that the rings cannot do without; a kernel that lacks one fails in many ways, and none of them says so.
const NEEDED: &[Feature] = &[Feature::Atomics, Feature::MmapArray];

/// Puts the name of what this kernel lacks in the place of what came of it.
pub(super) fn name_what_is_missing(error: Error, host: &Host) -> Error {
    if !matches!(error, Error::Kernel(_) | Error::Rejected(_)) {
        return error;
    }
    let features = Features::new(host.clone());
    for &feature in NEEDED {
        if matches!(features.check(feature), Support::Missing { .. }) {
            return Error::Unsupported {
                what: "recording events on this kernel".to_owned(),
                why: format!("it lacks {} ({})", feature.name(), feature.purpose()),
            };
        }
    }
    error
}

/// Whether trying the next way is pointless: the refusal is not about the program.
pub(super) fn is_final(error: &Error) -> bool {
    match error {
        Error::Kernel(kestrel_kernel::Error::Load { errno, log, .. }) => {
            errno.is_permission() && log.is_empty()
        }
        _ => false,
    }
}

/// Whether what is wrong is the program, not the place that it is for.
pub(super) fn is_of_program(error: &Error) -> bool {
    matches!(
        error,
        Error::Rejected(_) | Error::Compile { .. } | Error::Kernel(kestrel_kernel::Error::Load { .. })
    )
}

/// Why a way was not taken, in one line.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::Rejected(rejection) => format!("{rejection}: {}", rejection.last_words()),
        other => other.to_string(),
    }
}
