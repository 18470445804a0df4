//! Built-ins that read strings.

pub(super) mod buf;
mod find;
pub(super) mod glob;
pub(super) mod kstr;
pub(super) mod memcmp;
pub(super) mod path;
mod read;
pub(super) mod str;
pub(super) mod str_concat;
pub(super) mod strcap;
pub(super) mod strcontains;
pub(super) mod strlen;
pub(super) mod strncmp;
pub(super) mod strstr;
pub(super) mod write_user;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &str::STR,
    &kstr::KSTR,
    &glob::GLOB,
    &buf::BUF,
    &path::PATH,
    &strcontains::STRCONTAINS,
    &strstr::STRSTR,
    &strncmp::STRNCMP,
    &memcmp::MEMCMP,
    &str_concat::STR_CONCAT,
    &strcap::STRCAP,
    &strlen::STRLEN,
    &write_user::WRITE_USER,
];
