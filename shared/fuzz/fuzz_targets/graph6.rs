#![no_main]

#[path = "../targets.rs"]
#[allow(dead_code, reason = "each binary uses its part")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::graph6(data));
