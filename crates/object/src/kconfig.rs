//! Values of the kernel's configuration for variables that objects declare `extern … __kconfig`.

use kestrel_bpf::btf::{Btf, Type};
use kestrel_bpf::object::map::KconfigVariable;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::procfs::{self, KernelConfig};

/// A name that stands for something else than an option of the configuration.
struct KnownOption {
    name: &'static str,
    value: fn(&Host) -> Result<u64>,
}

/// A table: those names. A kernel that takes CO-RE relocations (5.17) has cookies, and system calls wrapped (4.17).
const KNOWN: &[KnownOption] = &[
    KnownOption {
        name: "LINUX_KERNEL_VERSION",
        value: |host| Ok(u64::from(procfs::version_code(host)?)),
    },
    KnownOption {
        name: "LINUX_HAS_BPF_COOKIE",
        value: |_| Ok(1),
    },
    KnownOption {
        name: "LINUX_HAS_SYSCALL_WRAPPER",
        value: |_| Ok(1),
    },
];

/// The bytes of the map of such variables.
///
/// `given` are options that the user says, which go before the kernel's configuration. Where that is not readable, one that is declared weak is as if it were not set.
pub(super) fn values(
    host: &Host,
    given: &[(String, String)],
    btf: &Btf,
    variables: &[KconfigVariable],
    size: u32,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; size as usize];
    let mut config: Option<Option<KernelConfig>> = None;
    for variable in variables {
        let wrong = |why: String| Error::Unsupported {
            what: format!("the kernel's configuration {}", variable.name),
            why,
        };
        let place = bytes.get_mut(variable.offset as usize..(variable.offset + variable.size) as usize);
        let Some(place) = place else { continue };
        let set = given
            .iter()
            .find(|(name, _)| *name == variable.name)
            .map(|(_, value)| value.as_str());
        if let (Some(known), None) = (KNOWN.iter().find(|known| known.name == variable.name), set) {
            number(place, (known.value)(host)?);
            continue;
        }
        let config = match &mut config {
            Some(config) => config,
            None => config.insert(procfs::config(host)?),
        };
        let text = config
            .as_ref()
            .and_then(|config| config.get(variable.name.strip_prefix("CONFIG_").unwrap_or(&variable.name)))
            .unwrap_or("n");
        let text = set.unwrap_or(text);
        match (text, btf.resolved(variable.ty)) {
            ("n", _) if config.is_none() && set.is_none() && !variable.weak => {
                return Err(wrong(format!(
                    "this kernel does not tell its configuration, neither in /proc/config.gz nor in /boot; if you know it, say it: --set {}=VALUE",
                    variable.name
                )));
            }
            ("n", _) => {}
            ("y", Type::Int(int)) if int.char => number(place, u64::from(b'y')),
            ("m", Type::Int(int)) if int.char => number(place, u64::from(b'm')),
            ("y", Type::Int(int)) if int.bool || int.size == 1 => number(place, 1),
            // `enum libbpf_tristate`: no, yes, module.
            ("y", Type::Enum(_)) => number(place, 1),
            ("m", Type::Enum(_)) => number(place, 2),
            (text, Type::Array { .. }) => {
                let text = text.trim_matches('"').as_bytes();
                let room = place.len().saturating_sub(1);
                for (to, from) in place.iter_mut().zip(text.iter().take(room)) {
                    *to = *from;
                }
            }
            (text, _) => {
                let value = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).ok(),
                    None => text.parse::<i64>().ok().map(|value| value as u64),
                };
                number(
                    place,
                    value
                        .ok_or_else(|| wrong(format!("its value `{text}` does not fit the declared type")))?,
                );
            }
        }
    }
    Ok(bytes)
}

fn number(place: &mut [u8], value: u64) {
    for (to, from) in place.iter_mut().zip(value.to_le_bytes()) {
        *to = from;
    }
}
