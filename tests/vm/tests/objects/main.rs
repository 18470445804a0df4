//! Compiled objects: run as users run them, counted against calls that the test makes, and nothing left behind that should not be.

mod attaching;
mod documented;
mod held;
mod kinds;
mod library;
mod modules;
mod refusals;
mod relayed;
mod tables;
mod usdt;
