//! The catalog, the table of dimensions and space files.

use super::files::without_column;
use super::full;
use crate::dimensions::{Dimension, TABLE, reference};
use crate::{Feature, Space};

#[test]
fn the_table_is_in_order_and_complete() {
    for (index, row) in TABLE.iter().enumerate() {
        assert_eq!(row.dimension as usize, index, "{}", row.name);
        let words: Vec<&str> = match row.full {
            crate::dimensions::Values::Set(words) => words.to_vec(),
            crate::dimensions::Values::Range(..) => Vec::new(),
        };
        for word in words {
            let code = row.dimension.code(word).unwrap_or_else(|rule| panic!("{}: {word}: {rule}", row.name));
            assert_eq!(row.dimension.word(code), word);
        }
        assert!(!row.dimension.full().steps().is_empty());
        for text in [row.why, row.source, row.unit] {
            assert!(!text.is_empty(), "{}", row.name);
        }
    }
    for feature in Feature::ALL {
        assert!(Dimension::of(feature).row().features.contains(&feature));
    }
}

#[test]
fn the_full_space_is_what_the_table_says() {
    let full = full();
    for dimension in Dimension::all() {
        assert_eq!(full.domain(dimension), &dimension.full(), "{}", dimension.name());
    }
}

#[test]
fn the_reference_page_is_not_stale() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/dimensions.md");
    if std::env::var_os("KELPIE_BLESS").is_some() {
        std::fs::write(path, reference()).expect("docs/ is writable where the page is renewed");
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == reference(),
        "docs/reference/dimensions.md is stale; renew it: KELPIE_BLESS=1 cargo test -p kelpie-spaces reference"
    );
}

#[test]
fn the_catalog_reads_writes_and_stays_within_the_full_space() {
    let full = full();
    for name in Space::catalog_names() {
        let space = Space::catalog(name).expect("the catalog names it");
        assert_eq!(space.name(), *name);
        assert!(!space.about().is_empty(), "{name}");
        let again = Space::from_yaml(name, &space.to_yaml()).expect("a space reads back");
        assert_eq!(again, space, "{name}");
        assert_eq!(again.about(), space.about(), "{name}");
        let differs = Dimension::all().filter(|dimension| !space.domain(*dimension).within(full.domain(*dimension)));
        let differs: Vec<&str> = differs.map(Dimension::name).collect();
        let expected: &[&str] = if *name == "rpc-library" { &["mixed_opcodes"] } else { &[] };
        assert_eq!(differs, expected, "{name}");
    }
    assert!(Space::catalog("nothing").is_none());
}

#[test]
fn a_restriction_is_what_both_admit() {
    let full = full();
    let part =
        Space::from_yaml("part", "kelpie: space/1\nqp_type: [RC]\nqps: {min: 3, max: 10}\nmessage: [100B, 1KiB]\n")
            .expect("a part");
    let both = full.restrict(&part).expect("they overlap");
    assert_eq!(both, part);
    assert_eq!(part.restrict(&full).as_ref(), Ok(&part));
    assert!(both.is_within(&full) && both.is_within(&part) && !full.is_within(&part));
    let ud = Space::from_yaml("ud", "kelpie: space/1\nqp_type: [UD]\n").expect("a part");
    let error = part.restrict(&ud).expect_err("RC and UD have nothing in common");
    assert_eq!(error.to_string(), "part and ud have no value of `qp_type` in common");
    let write = Space::from_yaml("write", "kelpie: space/1\nopcode: [WRITE]\n").expect("a part");
    assert!(ud.restrict(&write).expect_err("UD cannot WRITE").to_string().contains("no workload fits all bounds"));
}

#[test]
fn sizes_of_spaces_are_ordered() {
    let size = |name| Space::catalog(name).expect("the catalog names it").log10_size();
    assert!(size("full") > 36.0, "the paper's space has about 10^36 points, ours {}", size("full"));
    for name in ["rpc-library", "dml", "lab"] {
        assert!(size(name) < size("full") && size(name) > 5.0, "{name}: {}", size(name));
    }
}

#[test]
fn what_a_space_is_about_stays_as_it_is_written() {
    for (written, about) in [("1e9", "1e9"), ("0x10", "0x10"), ("' 1.0 '", "1.0"), ("true", "true"), ("RPC", "RPC")] {
        let space = Space::from_yaml("s.yaml", &format!("%YAML 1.1\n---\nkelpie: space/1\nabout: {written}\n"));
        assert_eq!(space.expect(written).about(), about);
    }
}

#[test]
fn mistakes_in_a_space_name_their_line() {
    let check = |text: &str, expected: &str| {
        let error = Space::from_yaml("s.yaml", text).expect_err(text).to_string();
        assert!(without_column(&error).starts_with(expected), "{text}\n  {error}\n  {expected}");
    };
    check("kelpie: space/2\n", "s.yaml:1: kelpie: this is format `space/2`; write `kelpie: space/1`");
    check("qps: [1]\n", "s.yaml:1: the document: key `kelpie` is missing");
    check(
        "kelpie: space/1\ncolour: [1]\n",
        "s.yaml:2: colour: unknown key `colour`; the keys here are kelpie, about, memory_requester,",
    );
    check("kelpie: space/1\n\nqps: {min: 9, max: 3}\n", "s.yaml:3: qps: min 9 is over max 3");
    check(
        "kelpie: space/1\nqps: {min: 9, most: 3}\n",
        "s.yaml:2: qps.most: unknown key `most`; the keys here are min, max",
    );
    for (number, rule) in [
        ("1e3", "`1e3` is not a whole number from 1 to 65536"),
        ("8.0", "`8.0` is not a whole number from 1 to 65536"),
        ("-0", "`-0` is not a whole number from 1 to 65536"),
        ("-8", "`-8` is not a whole number from 1 to 65536"),
        ("0x10", "`0x10` is not decimal; write 16"),
        ("010", "`010` begins with 0; write 10"),
        ("'8'", "`8` is text; write it without quotes"),
        ("~", "a value is missing; write a whole number from 1 to 65536"),
    ] {
        check(&format!("kelpie: space/1\nqps: [{number}]\n"), &format!("s.yaml:2: qps[0]: {rule}"));
    }
    check("kelpie: space/1\nabout:\n", "s.yaml:2: about: a value is missing");
    check("kelpie: space/1\nmessage: {max: 1e3}\n", "s.yaml:2: message.max: `1e3` is not a size such as 64KiB");
    check("kelpie: space/1\nqps: {min: 0}\n", "s.yaml:2: qps.min: outside 1 to 65536");
    check(
        "kelpie: space/1\nqps: 5\n",
        "s.yaml:2: qps: `5` is not a list of the values to admit, such as [a, b], or a group with the keys min, max",
    );
    check(
        "kelpie: space/1\nqp_type: RC\n",
        "s.yaml:2: qp_type: `RC` is not a list of the values to admit, such as [a, b]",
    );
    check("kelpie: space/1\nqp_type: {min: RC}\n", "s.yaml:2: qp_type: write a list of the values to admit");
    check("kelpie: space/1\nqp_type: []\n", "s.yaml:2: qp_type: an empty set admits nothing");
    check("kelpie: space/1\nqp_type: [RC, XRC]\n", "s.yaml:2: qp_type[1]: write one of RC, UC, UD");
    let mistyped = "kelpie: space/1\nopcode: [WRIET]\n";
    let expected = "s.yaml:2: opcode[0]: write one of SEND, WRITE, READ, WRITE_WITH_IMM, SEND_WITH_IMM, FETCH_ADD, CMP_SWAP; \
                    did you mean `WRITE`?";
    check(mistyped, expected);
    check("kelpie: space/1\nmtu: [1500]\n", "s.yaml:2: mtu[0]: path MTU 1500 is not one of");
    check(
        "kelpie: space/1\nmemory_requester: [hbm:0]\n",
        "s.yaml:2: memory_requester[0]: `hbm:0` is not a memory device",
    );
    check("kelpie: space/1\nmessage: {max: 64KB}\n", "s.yaml:2: message.max: `64KB` is not a size");
    check("kelpie: space/1\nqp_type: [UD]\nopcode: [WRITE]\n", "s.yaml: no workload fits all bounds together");
    check("kelpie: space/1\nmessage: {min: 8KiB}\nmr_size: [4KiB]\n", "s.yaml: no workload fits all bounds together");
    let only_max = "s.yaml:2: pinned_per_host: only an upper bound has a meaning here";
    check("kelpie: space/1\npinned_per_host: {min: 1GiB}\n", only_max);
    check("kelpie: space/1\npinned_per_host: [1GiB]\n", only_max);
    check("", "s.yaml:1: the document is empty");
    let error = Space::from_bytes("s.yaml", b"kelpie: \xff").expect_err("no text").to_string();
    assert_eq!(error, "s.yaml: not UTF-8 text: the byte at offset 8 begins no character; save the file as UTF-8");
}
