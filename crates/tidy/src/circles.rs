// SPDX-License-Identifier: MIT OR Apache-2.0
//! Circles between the files of a crate: files that need each other can't be understood, tested or
//! moved one by one.
//!
//! Input: the sources of one crate. Output: its circles. A file needs another if a path in it leads
//! there, also through re-exports of a module. A module and its own children may need each other.
//! Tests inside a file don't count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, Meta, Path, UseTree, VisRestricted};

/// A re-export may lead to another one; a chain of more than this many is a circle of its own.
const ALIASES_MAX: usize = 16;

/// A module by the names that lead to it from the top of its crate.
type Module = Vec<String>;

/// A circle: paths of files under `src`, in order.
pub type Circle = Vec<String>;

/// The circles of a crate, of its files under `src` by their paths there.
///
/// # Errors
/// A file is no Rust.
pub fn circles(files: &BTreeMap<&str, &str>) -> Result<Vec<Circle>, String> {
    let mut found = Found::default();
    for (path, text) in files {
        let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
        let module = module_of(path);
        found.files.insert(module.clone(), (*path).to_owned());
        found.scope = module;
        found.visit_file(&file);
    }
    Ok(found.circles())
}

/// The module that is in this file.
fn module_of(path: &str) -> Module {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let mut module: Module = stem.split('/').map(str::to_owned).collect();
    let is_top = module.len() == 1 && matches!(stem, "lib" | "main");
    if is_top || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// Uses of modules in all files.
#[derive(Default)]
struct Found {
    files: BTreeMap<Module, String>,
    /// The module that is looked at.
    scope: Module,
    /// Paths, each with the module that it is in.
    paths: Vec<(Module, Vec<String>)>,
    /// Names that modules use, each with the path behind it.
    aliases: BTreeMap<(Module, String), Vec<String>>,
}

impl Found {
    fn note(&mut self, path: Vec<String>) {
        if matches!(
            path.first().map(String::as_str),
            Some("crate" | "self" | "super")
        ) {
            self.paths.push((self.scope.clone(), path));
        }
    }

    fn note_use(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.note_use(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last() {
                    self.alias(last.clone(), before.to_vec());
                }
            }
            UseTree::Name(name) => self.alias(name.ident.to_string(), with(&name.ident)),
            UseTree::Rename(rename) => self.alias(rename.rename.to_string(), with(&rename.ident)),
            UseTree::Glob(_) => self.note(before.to_vec()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_use(before, tree);
                }
            }
        }
    }

    fn alias(&mut self, name: String, path: Vec<String>) {
        self.note(path.clone());
        self.aliases.insert((self.scope.clone(), name), path);
    }

    /// Paths in the arguments of a macro, which is not parsed.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.note(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.note(std::mem::take(&mut path));
                    self.note_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.note(std::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.note(path);
    }

    /// The module that has the item which a path in `scope` names; `None` if that is another
    /// crate's.
    fn resolved(&self, scope: &[String], path: &[String], aliases: usize) -> Option<Module> {
        let mut module = scope.to_vec();
        let mut rest = path.iter();
        let mut is_inside = false;
        while let Some(name) = rest.next() {
            match name.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                _ => {
                    let child = [module.as_slice(), std::slice::from_ref(name)].concat();
                    if self.files.contains_key(&child) {
                        module = child;
                    } else if let Some(alias) = self.aliases.get(&(module.clone(), name.clone())) {
                        if aliases == ALIASES_MAX {
                            return None;
                        }
                        let all = [alias.as_slice(), rest.as_slice()].concat();
                        return self.resolved(&module, &all, aliases + 1);
                    } else {
                        // An item, or a module inside the file.
                        return is_inside.then_some(module);
                    }
                }
            }
            is_inside = true;
        }
        Some(module)
    }

    /// The file that a module is in.
    fn file_of(&self, module: &[String]) -> Option<&Module> {
        (0..=module.len())
            .rev()
            .find_map(|length| Some(self.files.get_key_value(&module[..length])?.0))
    }

    fn circles(&self) -> Vec<Circle> {
        let mut needs: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
        for (scope, path) in &self.paths {
            let needed = self.resolved(scope, path, 0);
            let needed = needed.and_then(|module| self.file_of(&module));
            let (Some(from), Some(to)) = (self.file_of(scope), needed) else {
                continue;
            };
            if !from.starts_with(to) && !to.starts_with(from) {
                needs.entry(from).or_default().insert(to);
            }
        }
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = needs
            .keys()
            .map(|from| (*from, reach(&needs, from)))
            .collect();
        let mut circles: BTreeSet<Circle> = BTreeSet::new();
        for (from, all) in &reached {
            let is_mutual =
                |to: &&&Module| reached.get(**to).is_some_and(|back| back.contains(from));
            let circle: Circle = all
                .iter()
                .filter(is_mutual)
                .map(|module| self.files[*module].clone())
                .collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

/// Modules that `from` needs, directly or through others.
fn reach<'a>(
    needs: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![from];
    while let Some(module) = ahead.pop() {
        for to in needs.get(module).into_iter().flatten() {
            if reached.insert(*to) {
                ahead.push(to);
            }
        }
    }
    reached
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if is_test(&module.attrs) {
            return;
        }
        self.scope.push(module.ident.to_string());
        syn::visit::visit_item_mod(self, module);
        self.scope.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.note_use(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let segments = path.segments.iter();
        self.note(segments.map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, of: &'ast Macro) {
        self.note_tokens(of.tokens.clone());
    }

    /// The visibility of an item is not a need of its module.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<Circle> {
        circles(&files.iter().copied().collect()).expect("Rust")
    }

    #[test]
    fn files_that_need_each_other_are_a_circle() {
        let both = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            (
                "b/mod.rs",
                "pub struct B; fn f() { println!(\"{}\", crate::a::A) }",
            ),
            ("c.rs", "use crate::{a, b};"),
        ];
        assert_eq!(of(&both), [["a.rs", "b/mod.rs"]]);
        let three = [
            ("main.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use super::b::*;"),
            ("b.rs", "fn f(c: super::c::C) {}"),
            ("c.rs", "use crate::a as other;"),
        ];
        assert_eq!(of(&three), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn what_a_module_passes_on_leads_to_its_own_file() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            (
                "a/mod.rs",
                "mod one; mod two; pub use one::One; use two::Two;",
            ),
            ("a/one.rs", "use super::Two; pub struct One;"),
            ("a/two.rs", "use crate::a::One; pub struct Two;"),
            ("b.rs", "use crate::a::One;"),
        ];
        assert_eq!(of(&files), [["a/one.rs", "a/two.rs"]]);
    }

    #[test]
    fn a_module_and_its_children_may_need_each_other_and_tests_any() {
        let files = [
            ("lib.rs", "mod a; pub struct Top; use a::A;"),
            ("a/mod.rs", "mod b; use crate::Top; pub struct A(b::B);"),
            (
                "a/b.rs",
                "use super::A; pub(in crate::a) struct B; mod inside { use super::B; }",
            ),
            ("c.rs", "use crate::d::D; pub struct C;"),
            (
                "d.rs",
                "pub struct D; #[cfg(test)] mod tests { use crate::c::C; }",
            ),
        ];
        assert_eq!(of(&files), [[""; 0]; 0]);
    }

    #[test]
    fn re_exports_in_a_circle_end() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::X;"),
            ("b.rs", "pub use crate::a::X;"),
        ];
        // Neither has it, so nothing is known of who needs whom.
        assert_eq!(of(&files), [[""; 0]; 0]);
        assert!(circles(&[("lib.rs", "fn {")].into()).is_err());
    }
}
