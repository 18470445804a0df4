//! Hits that a kernel counts nowhere, and the one rule by which people are shown a remark about them.

use crate::session::attached::Session;
use crate::session::missed;
use kestrel_catalog::Result;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Why not all missed hits of a session are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncounted {
    /// Why it is not counted.
    pub why: Cow<'static, str>,
    /// Whether counts of events leave some hits out: handlers count in maps, or act.
    pub unseen: bool,
    /// Whether one program serves several events, which its counts do not tell apart.
    pub joined: bool,
}

impl Uncounted {
    /// Whether it can matter to figures: `missed` hits are counted, and `hits` says which events came to which CPUs.
    ///
    /// The rule: a hit is hidden by the run of another program on its CPU. So the remark stands on the terminal where at least two events came to one CPU, where hits that may be such are in no
    /// figure, or where missed hits were counted, so that others are likely. Elsewhere it is for `-v`, JSON and docs/losses.md; the figure itself says `at least`.
    pub fn matters<K: Ord>(&self, missed: u64, hits: impl IntoIterator<Item = (K, u32)>) -> bool {
        if missed > 0 || self.unseen {
            return true;
        }
        let mut first: BTreeMap<u32, K> = BTreeMap::new();
        hits.into_iter().any(|(event, cpu)| match first.get(&cpu) {
            _ if self.joined => true,
            Some(other) => *other != event,
            None => {
                first.insert(cpu, event);
                false
            }
        })
    }
}

impl fmt::Display for Uncounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not all missed hits are counted: {}", self.why)
    }
}

/// In JSON it is the reason.
impl Serialize for Uncounted {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(&self.why)
    }
}

impl Session {
    /// Why [`Session::missed`] does not say all, where it does not.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn uncounted(&self) -> Result<Option<Uncounted>> {
        let mut hooks = Vec::new();
        let mut hides = false;
        for hook in &self.hooks {
            let (program, links) = (hook.program.info()?, hook.links.infos()?);
            // Events of tracefs have a profile on every kernel.
            let own = !hook.links.events().is_empty();
            hides |= !own && missed::hides(hook.mechanism.as_ref(), links.iter().cloned());
            hooks.push((program, links.into_iter()));
        }
        let why = match hides {
            true => missed::UNCOUNTED,
            false if missed::nest(hooks.into_iter()) => missed::NESTED,
            false => return Ok(None),
        };
        let acts = self.classes().iter().any(|class| class.action.is_some());
        let counts = self.resources.maps.all().iter().any(|(map, _)| !map.is_hidden());
        Ok(Some(Uncounted {
            why: why.into(),
            unseen: acts || counts,
            joined: self.hooks.iter().any(|hook| hook.others > 0),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_matters_where_one_hit_may_have_hidden_another() {
        let plain = Uncounted {
            why: "so".into(),
            unseen: false,
            joined: false,
        };
        assert!(!plain.matters(0, [("a", 0), ("b", 1), ("a", 1)].into_iter().take(2)));
        assert!(plain.matters(0, [("a", 0), ("b", 1), ("a", 1)]));
        assert!(plain.matters(1, [("a", 0)]));
        let joined = Uncounted {
            joined: true,
            ..plain.clone()
        };
        assert!(joined.matters(0, [("a", 0)]));
        assert!(!joined.matters::<&str>(0, []));
        let unseen = Uncounted {
            unseen: true,
            ..plain.clone()
        };
        assert!(unseen.matters::<&str>(0, []));
        assert_eq!(plain.to_string(), "not all missed hits are counted: so");
    }
}
