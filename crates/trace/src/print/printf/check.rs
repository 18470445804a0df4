//! Checking a format's conversions against the types of its arguments.

use super::{Conversion, Format, Letter};
use crate::layout::FieldType;
use std::fmt;
use std::ops::Range;

/// A mismatch of a format and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The place in the format, in bytes; none where it is about the whole.
    pub at: Option<Range<usize>>,
    /// The argument, counted from 0; none where it is about the whole.
    pub argument: Option<usize>,
    /// Why the format does not fit.
    pub wrong: Wrong,
}

/// A way in which a format and its arguments do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants speak for themselves")]
pub enum Wrong {
    TooFew {
        given: usize,
        wanted: usize,
    },
    TooMany {
        given: usize,
        wanted: usize,
    },
    /// A conversion that no type of the language has.
    Unsupported {
        letters: String,
    },
    /// A conversion that does not take the argument's type, and the one that does; the caller knows the type's name.
    Type {
        letters: String,
        instead: &'static str,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { given, wanted } => write!(
                f,
                "not enough arguments for format string ({given} supplied, {wanted} expected)"
            ),
            Self::TooMany { given, wanted } => write!(
                f,
                "too many arguments for format string ({given} supplied, {wanted} expected)"
            ),
            Self::Unsupported { letters } | Self::Type { letters, .. } => {
                write!(f, "unsupported format specifier: {letters}")
            }
        }
    }
}

impl Format {
    /// Mismatches of arguments of these types: nothing, how many they are, or each that does not suit its conversion.
    pub fn check<'t>(&self, types: impl IntoIterator<Item = &'t FieldType>) -> Vec<Mismatch> {
        let types: Vec<_> = types.into_iter().collect();
        let (given, wanted) = (types.len(), self.conversions().count());
        let whole = |wrong| {
            vec![Mismatch {
                at: None,
                argument: None,
                wrong,
            }]
        };
        if given < wanted {
            return whole(Wrong::TooFew { given, wanted });
        }
        if given > wanted {
            return whole(Wrong::TooMany { given, wanted });
        }
        let pairs = self.conversions().zip(types).enumerate();
        let wrong = pairs.filter_map(|(argument, (conversion, ty))| {
            Some(Mismatch {
                at: Some(conversion.at.clone()),
                argument: Some(argument),
                wrong: conversion.wrong_for(ty)?,
            })
        });
        wrong.collect()
    }
}

impl Conversion {
    /// Mismatch with values of a type.
    fn wrong_for(&self, ty: &FieldType) -> Option<Wrong> {
        let letters = self.letters();
        let integer = ty.integer_size().is_some();
        let suits = match self.letter {
            Letter::Unsupported(_) => return Some(Wrong::Unsupported { letters }),
            Letter::Text => true,
            Letter::Buffer(_) => matches!(ty, FieldType::Buffer { .. } | FieldType::Bytes { .. }),
            _ => integer,
        };
        let instead = match ty {
            _ if integer => "%d",
            FieldType::Buffer { .. } | FieldType::Bytes { .. } => "%r",
            _ => "%s",
        };
        (!suits).then_some(Wrong::Type { letters, instead })
    }
}
