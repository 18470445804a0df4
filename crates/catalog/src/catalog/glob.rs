//! Patterns over event names: `*`, `?` and `[…]`, where most patterns are a plain name or a prefix and must be cheap.

/// A pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: String,
    /// Length of the fixed text that every match begins with.
    prefix: usize,
}

impl Glob {
    /// Makes a pattern; every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        let pattern = pattern.into();
        let prefix = pattern.find(['*', '?', '[', '\\']).unwrap_or(pattern.len());
        Self { pattern, prefix }
    }

    /// Whether the pattern matches exactly one name.
    pub fn is_plain(&self) -> bool {
        self.prefix == self.pattern.len()
    }

    /// The fixed text that every match begins with.
    pub fn fixed(&self) -> &str {
        self.pattern.get(..self.prefix).unwrap_or_default()
    }

    /// Text of the pattern.
    pub fn text(&self) -> &str {
        &self.pattern
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        if self.is_plain() {
            return name == self.pattern;
        }
        let (head, rest) = self.pattern.split_at(self.prefix);
        match name.strip_prefix(head) {
            None => false,
            Some(_) if rest == "*" => true,
            Some(tail) => fast_glob::glob_match(rest, tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_like_a_shell() {
        for (pattern, name, yes) in [
            ("vfs_read", "vfs_read", true),
            ("vfs_read", "vfs_readv", false),
            ("vfs_*", "vfs_read", true),
            ("vfs_*", "do_vfs", false),
            ("*read*", "vfs_readv", true),
            ("sched_?witch", "sched_switch", true),
            ("sys_[ab]*", "sys_brk", true),
            ("sys_[ab]*", "sys_clone", false),
            ("*", "", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), yes, "{pattern} {name}");
        }
    }
}
