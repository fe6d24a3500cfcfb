//! The reader of recipes over arbitrary bytes: an archive, the content of an archive, `recipe.json` in a good archive.
//! It returns a recipe, or an error that a terminal can show.

#![no_main]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use kelpie_reports::recipe::{RECIPE, RecipeError, parse, unpack};
use libfuzzer_sys::fuzz_target;
use tar::{Builder, Header};

fuzz_target!(|bytes: &[u8]| {
    check(unpack(bytes));
    check(unpack(&gzip(bytes)));
    let mut header = Header::new_ustar();
    header.set_size(bytes.len() as u64);
    let mut builder = Builder::new(Vec::new());
    builder.append_data(&mut header, RECIPE, bytes).expect("memory takes all");
    check(unpack(&gzip(&builder.into_inner().expect("memory takes all"))));
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(parse(text));
    }
});

fn check<T>(outcome: Result<T, RecipeError>) {
    if let Err(error) = outcome {
        assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}
