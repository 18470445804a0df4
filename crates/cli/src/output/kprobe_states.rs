//! States of kprobes in the kernel's list, in its words and as JSON.

use kestrel::kernel::kprobes::Listed;
use serde::Serialize;

/// States of a kprobe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct KprobeStates {
    gone: bool,
    disabled: bool,
    optimized: bool,
    ftrace: bool,
}

impl KprobeStates {
    pub(crate) fn of(probe: &Listed) -> Self {
        Self {
            gone: probe.gone,
            disabled: probe.disabled,
            optimized: probe.optimized,
            ftrace: probe.ftrace,
        }
    }

    /// Whether the probe can fire while the kernel's global switch is on.
    pub(crate) fn can_fire(self) -> bool {
        !self.disabled && !self.gone
    }

    /// Words of the list: `[OPTIMIZED]`.
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        let states = [
            (self.gone, "[GONE]"),
            (self.disabled, "[DISABLED]"),
            (self.optimized, "[OPTIMIZED]"),
            (self.ftrace, "[FTRACE]"),
        ];
        states.into_iter().filter_map(|(is, word)| is.then_some(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_json_say_the_same() {
        let states = KprobeStates {
            gone: false,
            disabled: true,
            optimized: false,
            ftrace: true,
        };
        assert_eq!(states.words().collect::<String>(), "[DISABLED][FTRACE]");
        assert!(!states.can_fire());
        let json = serde_json::to_value(states).unwrap();
        let names = json.as_object().unwrap().iter();
        let names: Vec<&str> = names
            .filter(|(_, is)| **is == true)
            .map(|(key, _)| key.as_str())
            .collect();
        assert_eq!(names, ["disabled", "ftrace"]);
    }
}
