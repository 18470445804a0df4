//! Refusals by the kernel and their meaning: that it lacks what nothing can do without, that this process may not, or that another way may do.

use crate::plan::Hook;
use kestrel_catalog::Error;
use kestrel_kernel::Host;
use kestrel_kernel::feature::{Feature, Features, Support};

/// Features that the rings cannot do without; a kernel that lacks one fails in many ways, and none of them says so.
const NEEDED: &[Feature] = &[Feature::Atomics, Feature::MmapArray];

/// Puts the name of what this kernel lacks in the place of what came of it.
pub(in crate::session) fn name_what_is_missing(error: Error, host: &Host) -> Error {
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
pub(in crate::session) fn is_final(error: &Error) -> bool {
    match error {
        Error::Kernel(kestrel_kernel::Error::Load { errno, log, .. }) => {
            errno.is_permission() && log.is_empty()
        }
        _ => false,
    }
}

/// Whether a session can do without a hook that was refused so: never where something ran short, and where no pattern but `missing_probes` lets it, only
/// if the place is refused, not the program.
pub(in crate::session) fn can_be_left_out(hook: &Hook, error: &Error) -> bool {
    let is_of_program = matches!(
        error,
        Error::Rejected(_) | Error::Compile { .. } | Error::Kernel(kestrel_kernel::Error::Load { .. })
    );
    (hook.optional || hook.may_be_missing && !is_of_program) && !is_final(error) && !error.is_shortage()
}

/// Why a way was not taken, in one line.
pub(in crate::session) fn reason(error: &Error) -> String {
    match error {
        Error::Rejected(rejection) => format!("{rejection}: {}", rejection.last_words()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::{Errno, Error as Kernel, Interface};

    #[test]
    fn an_exhausted_resource_is_not_reported_as_a_missing_probe() {
        let refused = |errno| {
            Error::Kernel(Kernel::System {
                action: "attach to",
                subject: "f".to_owned(),
                errno,
                interface: Interface::Other,
            })
        };
        let load = Error::Kernel(Kernel::Load {
            program: "f".to_owned(),
            errno: Errno::EINVAL,
            log: "it is wrong".to_owned(),
        });
        let hook = |optional, may_be_missing| Hook {
            may_be_missing,
            ..Hook::new("kprobe", Vec::new(), Vec::new(), Vec::new(), optional)
        };
        let (named, of_pattern, allowed) = (hook(false, false), hook(true, false), hook(false, true));
        let left_out =
            |error: &Error| [&named, &of_pattern, &allowed].map(|hook| can_be_left_out(hook, error));
        assert_eq!(left_out(&refused(Errno::EINVAL)), [false, true, true]);
        assert_eq!(left_out(&load), [false, true, false]);
        for short in [
            Errno::EMFILE,
            Errno::ENFILE,
            Errno::ENOMEM,
            Errno::EINTR,
            Errno::EAGAIN,
        ] {
            assert_eq!(left_out(&refused(short)), [false; 3], "{short:?}");
        }
    }
}
