//! Users by name or number, from /etc/passwd; name services beyond that file are not asked (a static binary cannot load them).

use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;

/// The user whose rights a command has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// User number.
    pub uid: u32,
    /// Number of the first group; a command gets no other.
    pub gid: u32,
    /// Home directory.
    pub home: String,
}

/// The user of this name or number.
///
/// # Errors
/// When there is none.
pub fn find(host: &Host, wanted: &str) -> Result<User> {
    let path = host.path("/etc/passwd");
    let text = std::fs::read_to_string(&path).map_err(Error::io("read", path.display()))?;
    text.lines()
        .filter_map(parse)
        .find(|user| user.name == wanted || wanted.parse() == Ok(user.uid))
        .ok_or_else(|| Error::Unsupported {
            what: format!("running commands as {wanted}"),
            why: "/etc/passwd has no such user".to_owned(),
        })
}

/// `name:password:uid:gid:comment:home:shell`
fn parse(line: &str) -> Option<User> {
    let parts: Vec<&str> = line.split(':').collect();
    Some(User {
        name: (*parts.first()?).to_owned(),
        uid: parts.get(2)?.parse().ok()?,
        gid: parts.get(3)?.parse().ok()?,
        home: (*parts.get(5)?).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("etc")).unwrap();
        let text = "root:x:0:0:root:/root:/bin/sh\nbroken\nops:x:1200:1300::/srv/ops:/bin/false\n";
        std::fs::write(tree.path().join("etc/passwd"), text).unwrap();
        let host = Host::new(tree.path());
        let ops = find(&host, "ops").unwrap();
        assert_eq!((ops.uid, ops.gid, ops.home.as_str()), (1200, 1300, "/srv/ops"));
        assert_eq!(find(&host, "1200").unwrap(), ops);
        assert_eq!(find(&host, "root").unwrap().uid, 0);
        let refused = find(&host, "nobody-here").unwrap_err().to_string();
        assert!(refused.contains("nobody-here"), "{refused}");
    }
}
