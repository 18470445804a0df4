//! The checked tree as S-expressions.
