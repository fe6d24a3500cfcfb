//! QPs put on LAG ports by a library that plays libmlx5. Not tried on such a device.

#![cfg(feature = "verbs")]

use std::ffi::{CString, c_int};
use std::path::Path;
use std::process::Command;

use kelpie_mlx5::{LagRefusal, leave_by, leave_from};
use rdma_sys::{ibv_context, ibv_qp};

/// Builds the library and has the process load it, as libibverbs would; its handle.
fn load(folder: &Path) -> *mut libc::c_void {
    let library = folder.join("libmlx5.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/fake_mlx5.c");
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-shared", "-fPIC", "-Wl,-soname,libmlx5.so.1"]).arg(source).arg("-o").arg(&library);
    let output = command.output().expect("a C compiler, which Rust links with as well");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = CString::new(library.to_str().expect("UTF-8")).expect("no NUL");
    // SAFETY: the library has no constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

#[test]
fn a_qp_leaves_by_the_port_that_it_was_put_on_and_each_refusal_has_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let handle = load(folder.path());
    let set = |name: &str, value: c_int| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the library is open, and its variables of these names are `int`.
        unsafe { *libc::dlsym(handle, name.as_ptr()).cast::<c_int>() = value };
    };
    // SAFETY: of both, only what a QP has of its context, and that of its device, is looked at; all may be zero.
    let (mut context, mut qp): (ibv_context, ibv_qp) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    qp.context = &raw mut context;
    // SAFETY: the QP exists.
    let from = |qp: &mut ibv_qp, port| unsafe { leave_from(&raw mut *qp, port) };
    assert_eq!(from(&mut qp, 50_123), Ok(()));
    // SAFETY: the library is open, and its variable of this name is `int`.
    assert_eq!(unsafe { *libc::dlsym(handle, c"fake_source_port".as_ptr()).cast::<c_int>() }, 50_123);
    set("fake_error", libc::EOPNOTSUPP);
    assert_eq!(from(&mut qp, 50_124), Err(LagRefusal::NoSourcePort));
    set("fake_error", 0);
    // SAFETY: the QP exists.
    let mut put = |port| unsafe { leave_by(&raw mut qp, port) };
    assert_eq!([put(1), put(2), put(1)], [Ok(1), Ok(2), Ok(1)]);
    set("fake_error", libc::EINVAL);
    assert_eq!(put(3), Err(LagRefusal::Failed("mlx5dv_modify_qp_lag_port", libc::EINVAL)));
    set("fake_error", 0);
    set("fake_keeps", 1);
    assert_eq!(put(2), Ok(1), "the device says where the QP is, and not where it was to be");
    set("fake_has_lag", 0);
    assert_eq!(put(1), Err(LagRefusal::NoLag));
    set("fake_is_mlx5", 0);
    assert_eq!(put(1), Err(LagRefusal::OtherDevice));
}
