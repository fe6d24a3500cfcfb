//! Stands in for bindgen 0.59 in the build script of rdma-sys 0.3, which panics with libclang 16 and newer;
//! forwards to bindgen 0.72, which works with 14 to 19 and later. No logic of its own.

use std::path::Path;

/// bindgen's builder, with the calls of version 0.59 that rdma-sys makes.
#[derive(Debug, Default)]
pub struct Builder(bindgen_072::Builder);

macro_rules! forward_text {
    ($($name:ident)*) => {
        impl Builder {$(
            /// As in bindgen.
            #[must_use]
            pub fn $name(self, text: &str) -> Self {
                Self(self.0.$name(text))
            }
        )*}
    };
}

macro_rules! forward_switch {
    ($($name:ident)*) => {
        impl Builder {$(
            /// As in bindgen.
            #[must_use]
            pub fn $name(self, on: bool) -> Self {
                Self(self.0.$name(on))
            }
        )*}
    };
}

forward_text! {
    header allowlist_function allowlist_type blocklist_type opaque_type
    bitfield_enum constified_enum_module rustified_enum
}
forward_switch! { derive_copy derive_debug derive_default generate_comments prepend_enum_name size_t_is_usize }

impl Builder {
    /// As in bindgen.
    #[must_use]
    pub fn clang_args<I: IntoIterator<Item = String>>(self, args: I) -> Self {
        Self(self.0.clang_args(args))
    }

    /// Formatting changes nothing for the compiler and would ask for rustfmt at build time.
    #[must_use]
    pub fn rustfmt_bindings(self, _on: bool) -> Self {
        Self(self.0.formatter(bindgen_072::Formatter::None))
    }

    /// As in bindgen.
    #[must_use]
    pub fn disable_untagged_union(self) -> Self {
        Self(self.0.disable_untagged_union())
    }

    /// Generates the bindings.
    ///
    /// # Errors
    /// Where the header cannot be parsed.
    pub fn generate(self) -> Result<Bindings, bindgen_072::BindgenError> {
        self.0.generate().map(Bindings)
    }
}

/// Generated bindings.
#[derive(Debug)]
pub struct Bindings(bindgen_072::Bindings);

impl Bindings {
    /// Writes them.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write_to_file<P: AsRef<Path>>(&self, path: P) -> std::io::Result<()> {
        self.0.write_to_file(path)
    }
}
