//! What each file of a crate names in the others: modules, `use` and paths in code, without what only tests compile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree};

/// Segments of a path, such as `crate`, `plan`, `Plan`.
type Segments = Vec<String>;

/// A module: where its text is, and what the text says.
#[derive(Debug, Default)]
struct Module {
    /// Index of its file.
    file: usize,
    /// Modules right below it.
    children: BTreeSet<String>,
    /// What it defines itself.
    items: BTreeSet<String>,
    /// What `use` brings into it, by the name that it has here.
    imports: BTreeMap<String, Segments>,
    /// What `use …::*` brings into it.
    globs: Vec<Segments>,
    /// Every path in its code.
    paths: Vec<Segments>,
}

/// A crate as files that use one another.
#[derive(Debug, Default)]
pub struct CrateFiles {
    /// The files, with the module that each is.
    pub files: Vec<(PathBuf, Segments)>,
    modules: BTreeMap<Segments, Module>,
}

impl CrateFiles {
    /// Reads a crate from its root file on.
    pub fn read(root: &Path) -> Result<Self> {
        let mut files = Self::default();
        let folder = root.parent().context("a root file is in a folder")?;
        files.file(root, folder, &[])?;
        Ok(files)
    }

    /// Reads a file; the files of modules below it are in `folder`.
    fn file(&mut self, file: &Path, folder: &Path, module: &[String]) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let syntax = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        self.files.push((file.to_owned(), module.to_vec()));
        self.module(&syntax.items, self.files.len() - 1, folder, module)
    }

    /// Reads a module of the file number `file`.
    fn module(&mut self, items: &[Item], file: usize, folder: &Path, name: &[String]) -> Result<()> {
        let mut module = Module { file, ..Module::default() };
        let items = || items.iter().filter(|item| !is_for_tests(attributes(item)));
        let below = || items().filter_map(|item| if let Item::Mod(item) = item { Some(item) } else { None });
        module.children.extend(below().map(|item| item.ident.to_string()));
        items().filter(|item| !matches!(item, Item::Mod(_))).for_each(|item| module.visit_item(item));
        self.modules.insert(name.to_vec(), module);
        for item in below() {
            let child = [name, &[item.ident.to_string()]].concat();
            if let Some((_, items)) = &item.content {
                self.module(items, file, &folder.join(item.ident.to_string()), &child)?;
            } else {
                let (file, folder) = file_of(item, &self.files[file].0, folder);
                self.file(&file, &folder, &child)?;
            }
        }
        Ok(())
    }

    /// Which files each file uses, by index.
    pub fn uses(&self) -> Vec<BTreeSet<usize>> {
        let mut uses = vec![BTreeSet::new(); self.files.len()];
        for (name, module) in &self.modules {
            let named = module.paths.iter().chain(&module.globs);
            let named = named.filter_map(|path| self.absolute(name, path));
            let others = named.map(|path| self.file_that_defines(&path, 0)).filter(|file| *file != module.file);
            uses[module.file].extend(others);
        }
        uses
    }

    /// A path from the root of the crate; none for what another crate has.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Segments> {
        let mut base = module.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            first if self.modules.get(module).is_some_and(|module| module.children.contains(first)) => {}
            _ => return None,
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The file of what an absolute path means, through whatever is only imported on the way.
    fn file_that_defines(&self, path: &[String], depth: usize) -> usize {
        let mut name = Segments::new();
        for (index, segment) in path.iter().enumerate() {
            let module = &self.modules[&name];
            if module.children.contains(segment) {
                name.push(segment.clone());
                continue;
            }
            if module.items.contains(segment) || depth > MOST_IMPORTS {
                return module.file;
            }
            let imported = module.imports.get(segment).and_then(|import| self.absolute(&name, import));
            let imported = imported.or_else(|| self.through_globs(&name, module, segment));
            return imported.map_or(module.file, |mut import| {
                import.extend_from_slice(&path[index + 1..]);
                self.file_that_defines(&import, depth + 1)
            });
        }
        self.modules[&name].file
    }

    /// The absolute path of a name that a module has by `use …::*`.
    fn through_globs(&self, name: &[String], module: &Module, segment: &String) -> Option<Segments> {
        let has = |path: &Segments| {
            self.modules.get(path).is_some_and(|from| from.items.contains(segment) || from.children.contains(segment))
        };
        let mut from = module.globs.iter().filter_map(|glob| self.absolute(name, glob)).find(has)?;
        from.push(segment.clone());
        Some(from)
    }
}

/// Imports of imports that are followed. Source: our choice, because nobody re-exports as often.
const MOST_IMPORTS: usize = 16;

/// The file of a module and the folder of the modules below it.
fn file_of(item: &ItemMod, parent: &Path, folder: &Path) -> (PathBuf, PathBuf) {
    let name = item.ident.to_string();
    let named = item.attrs.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    if let Some(named) = named {
        let file = parent.with_file_name(named);
        let folder = file.parent().unwrap_or(folder).to_owned();
        return (file, folder);
    }
    let below = folder.join(&name);
    let nested = below.join("mod.rs");
    if nested.is_file() { (nested, below) } else { (folder.join(format!("{name}.rs")), below) }
}

/// Whether only tests compile what has these attributes.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let joined = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (name, path) = match tree {
            UseTree::Path(path) => return self.import(&path.tree, &joined(&path.ident)),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Glob(_) => return self.globs.push(before.to_vec()),
            UseTree::Name(name) if name.ident == "self" => {
                (before.last().cloned().unwrap_or_default(), before.to_vec())
            }
            UseTree::Name(name) => (name.ident.to_string(), joined(&name.ident)),
            UseTree::Rename(rename) => (rename.rename.to_string(), joined(&rename.ident)),
        };
        self.paths.push(path.clone());
        self.imports.insert(name, path);
    }

    /// Paths that begin at this crate, in text that is no syntax tree yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if path.is_empty() || colons == 2 => {
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' && !path.is_empty() && colons < 2 => colons += 1,
                other => {
                    self.end_of_path(&mut path);
                    colons = 0;
                    match other {
                        TokenTree::Ident(name) => path.push(name.to_string()),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                    }
                }
            }
        }
        self.end_of_path(&mut path);
    }

    fn end_of_path(&mut self, path: &mut Segments) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.paths.push(path);
        }
    }

    fn define(&mut self, name: &syn::Ident) {
        self.items.insert(name.to_string());
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Const(item) => self.define(&item.ident),
            Item::Enum(item) => self.define(&item.ident),
            Item::Fn(item) => self.define(&item.sig.ident),
            Item::Static(item) => self.define(&item.ident),
            Item::Struct(item) => self.define(&item.ident),
            Item::Trait(item) => self.define(&item.ident),
            Item::Type(item) => self.define(&item.ident),
            Item::Use(item) => return self.import(&item.tree, &[]),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.end_of_path(&mut segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    /// Who may use something says nothing about what it uses.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each file of a crate with these files uses, by the names of the files.
    fn uses(texts: &[(&str, &str)]) -> BTreeMap<String, Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in texts {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let files = CrateFiles::read(&folder.path().join("lib.rs")).expect("a crate");
        let name = |index: usize| {
            let name = files.files[index].0.strip_prefix(folder.path()).expect("in the folder");
            name.display().to_string()
        };
        let used = files.uses().into_iter().map(|used| used.into_iter().map(name).collect());
        (0..files.files.len()).map(name).zip(used).collect()
    }

    fn check(texts: &[(&str, &str)], file: &str, expected: &[&str]) {
        assert_eq!(uses(texts)[file], expected, "{file} of {texts:?}");
    }

    #[test]
    fn uses_are_seen_wherever_code_names_another_file() {
        let other = ("b.rs", "pub struct B; pub mod c { pub struct C; } pub fn f() {}");
        for a in [
            "use crate::b::B;",
            "use super::b::{self, c::C};",
            "fn f() { crate::b::f() }",
            "fn f(of: Option<crate::b::B>) {}",
            "fn f() { println!(\"{}\", crate::b::f()) }",
            "impl crate::b::B { }",
            "use crate::b::*;",
            "mod inline { use super::super::b; }",
            "use std::fmt as _; use crate::b::B as _; use std::io as _;",
        ] {
            check(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), other], "a.rs", &["b.rs"]);
        }
        for a in [
            "use std::b::B;",
            "#[cfg(test)] mod tests { use crate::b::B; }",
            "#[cfg(test)] use crate::b::B;",
            "//! See [`crate::b`].",
            "pub(in crate::b) struct A;",
            "fn b() { b() }",
            "fn f() { \"crate::b::B\"; }",
        ] {
            check(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), other], "a.rs", &[]);
        }
    }

    #[test]
    fn what_is_only_imported_on_the_way_is_used_where_it_is_defined() {
        let root = "mod a; mod b; pub use b::B; pub use b::deep::*; pub const OWN: u8 = 1;";
        for (a, expected) in [
            ("use crate::B;", "b/mod.rs"),
            ("use crate::D;", "b/deep.rs"),
            ("use crate::b::D;", "b/deep.rs"),
            ("use crate::OWN;", "lib.rs"),
            ("use crate::nobody_knows;", "lib.rs"),
        ] {
            let b = ("b/mod.rs", "pub mod deep; pub use self::deep::D; pub struct B;");
            let texts = [("lib.rs", root), ("a.rs", a), b, ("b/deep.rs", "pub struct D;")];
            check(&texts, "a.rs", &[expected]);
            check(&texts, "lib.rs", &["b/mod.rs", "b/deep.rs"]);
        }
    }

    #[test]
    fn files_of_modules_are_found() {
        let texts = [
            ("lib.rs", "mod a; #[path = \"odd.rs\"] mod b; #[cfg(test)] mod missing;"),
            ("a.rs", "mod c; mod d { mod e; }"),
            ("a/c.rs", "mod f;"),
            ("a/d/e.rs", ""),
            ("a/c/f.rs", "use crate::b::g::G;"),
            ("odd.rs", "pub mod g;"),
            ("g.rs", "pub struct G;"),
        ];
        assert_eq!(uses(&texts).len(), 7);
        check(&texts, "a/c/f.rs", &["g.rs"]);
    }
}
