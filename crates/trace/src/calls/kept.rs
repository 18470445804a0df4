//! Side files of a recording of calls, so that they read as they did live: the calls of its kernel with their arguments, which of them
//! were asked for, and what processes had open before the first.

use super::signature::{Abi, Signature, Signatures};
use crate::error::{Error, Result};
use crate::layout::FieldType;
use crate::syscall::ArgumentKind;
use serde::{Deserialize, Serialize};

/// Beside the records of a recording of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    calls: Vec<KeptCall>,
    /// The set that was asked for, as it was typed: others are recorded so that descriptors keep their names.
    pub set: String,
    /// The process of the command that was recorded: what it did before its exec, Kestrel did.
    pub command: Option<u32>,
    /// Open files of processes: process, descriptor, name.
    pub files: Vec<(u32, i64, String)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KeptCall {
    number: u64,
    abi: Abi,
    name: String,
    arguments: Vec<(String, FieldType)>,
    /// How C declares addresses that are not of strings, by the arguments' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    declared: Vec<(String, String)>,
}

impl Kept {
    /// The file within a trace's side folder: JSON.
    pub const FILE: &'static str = "calls";

    /// With these calls, of which a set is asked for.
    pub fn new(signatures: &Signatures, set: &str) -> Self {
        let kept = |(number, signature): (u64, &Signature)| KeptCall {
            number,
            abi: signature.abi,
            name: signature.call.clone(),
            arguments: signature
                .parameters
                .iter()
                .map(|it| (it.name.clone(), it.ty.clone()))
                .collect(),
            declared: signature
                .parameters
                .iter()
                .filter(|it| it.kind != Some(ArgumentKind::Text))
                .filter_map(|it| Some((it.name.clone(), it.declared.clone()?)))
                .collect(),
        };
        Self {
            calls: signatures.iter().map(kept).collect(),
            set: set.to_owned(),
            ..Self::default()
        }
    }

    /// Signatures of the system calls in the recording.
    pub fn signatures(&self) -> Signatures {
        let mut signatures = Signatures::default();
        for call in &self.calls {
            let signature = Signature::of_abi(call.abi, &call.name, call.arguments.iter().cloned());
            let declared = call.declared.iter();
            let signature = declared.fold(signature, |it, (name, declared)| it.declaring(name, declared));
            signatures.insert(call.number, signature);
        }
        signatures
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what `to_text` wrote.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Side {
            what: "the trace's system calls".into(),
            why: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_as_they_were() {
        let int = FieldType::Integer {
            size: 4,
            signed: true,
            base: crate::layout::Base::Decimal,
        };
        let mut signatures = Signatures::default();
        signatures.insert(3, Signature::new("close", [("fd".to_owned(), int.clone())]));
        signatures.insert(
            3,
            Signature::of_abi(Abi::Compat, "read", [("fd".to_owned(), int)]),
        );
        let address = FieldType::Pointer { symbolic: false };
        signatures.insert(
            42,
            Signature::new("connect", [("uservaddr".to_owned(), address)])
                .declaring("uservaddr", "struct sockaddr *"),
        );
        let mut kept = Kept::new(&signatures, "%file");
        kept.files
            .push((1, Kept::default().files.len() as i64, "/dev/null".to_owned()));
        let again = Kept::parse(&kept.to_text()).unwrap();
        assert_eq!(again, kept);
        let all = again.signatures();
        let names: Vec<_> = all
            .iter()
            .map(|(number, it)| (number, it.abi, it.call.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                (3, Abi::Native, "close"),
                (42, Abi::Native, "connect"),
                (3, Abi::Compat, "read")
            ]
        );
        let (_, connect) = all.named("connect").unwrap();
        assert_eq!(
            connect.parameters[0].declared.as_deref(),
            Some("struct sockaddr *")
        );
        assert!(Kept::parse("[1]").is_err());
    }
}
