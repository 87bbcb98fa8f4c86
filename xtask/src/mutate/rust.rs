//! Mutants of Rust, all of them in one program: each is a branch that is taken while its number is active, so that one
//! build serves for all.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprMethodCall, ImplItemFn, ItemFn, ItemMod, Pat,
    ReturnType, Signature, Stmt, Type, UnOp,
};

use super::ledger::{Mutant, hash};

/// What may stand in the place of something.
struct Alternative {
    number: usize,
    text: String,
}

/// How the alternatives of a place are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `(if on(1) { this } else { that })`
    Expression,
    /// `if on(1) { this; } else { that }`
    Statement,
    /// An arm's pattern: ` if !on(1)` behind it.
    Pattern,
    /// An arm's guard: `!on(1) && (guard)`.
    Guard,
    /// Behind the brace of a function: `if on(1) { return this; }`
    Entry,
}

/// A place with mutants. Places nest, as the syntax does.
struct Site {
    range: Range<usize>,
    style: Style,
    alternatives: Vec<Alternative>,
}

/// Mutants of one file, and how to write them.
pub struct Instrumented {
    source: String,
    sites: Vec<Site>,
    pub mutants: BTreeMap<usize, Mutant>,
}

/// Where a mutant's own text is in what was written.
pub struct Written {
    pub range: Range<usize>,
    pub number: usize,
}

impl Instrumented {
    /// Finds the mutants of a file, numbered from `first`.
    pub fn new(path: &str, source: String, first: usize) -> Result<Instrumented, String> {
        let file = syn::parse_file(&source).map_err(|error| format!("{path}: {error}"))?;
        let mut finder = Finder {
            path,
            source: &source,
            function: None,
            is_silent: false,
            sites: Vec::new(),
            mutants: BTreeMap::new(),
            next: first,
        };
        finder.visit_file(&file);
        let Finder { sites, mutants, .. } = finder;
        Ok(Instrumented { source, sites: nested(sites), mutants })
    }

    /// The file with those mutants that `is_valid` accepts, and where they are.
    pub fn write(&self, is_valid: impl Fn(usize) -> bool) -> (String, Vec<Written>) {
        let mut writer = Writer { of: self, is_valid, text: String::new(), written: Vec::new() };
        let mut at = 0;
        writer.copy(0..self.source.len(), &mut at);
        (writer.text, writer.written)
    }
}

/// One site a range and style, outer ones before those within.
fn nested(sites: Vec<Site>) -> Vec<Site> {
    let mut sites: Vec<Site> = sites;
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end), site.style as u8 == 0));
    let mut merged: Vec<Site> = Vec::new();
    for site in sites {
        match merged.last_mut() {
            Some(last) if last.range == site.range && last.style == site.style => {
                last.alternatives.extend(site.alternatives);
            }
            _ => merged.push(site),
        }
    }
    merged
}

struct Writer<'a, F> {
    of: &'a Instrumented,
    is_valid: F,
    text: String,
    written: Vec<Written>,
}

const ON: &str = "crate::mutation::on";

impl<F: Fn(usize) -> bool> Writer<'_, F> {
    /// Copies a part of the source, with the sites from `at` on that are in it.
    fn copy(&mut self, range: Range<usize>, at: &mut usize) {
        let mut from = range.start;
        while let Some(site) = self.of.sites.get(*at).filter(|site| site.range.end <= range.end) {
            if site.range.start < from {
                *at += 1;
                continue;
            }
            self.text.push_str(&self.of.source[from..site.range.start]);
            *at += 1;
            self.site(site, at);
            from = site.range.end;
        }
        self.text.push_str(&self.of.source[from..range.end]);
    }

    fn site(&mut self, site: &Site, at: &mut usize) {
        let (open, close) = match site.style {
            Style::Expression => ("(", ")"),
            _ => ("", ""),
        };
        let valid: Vec<&Alternative> =
            site.alternatives.iter().filter(|alternative| (self.is_valid)(alternative.number)).collect();
        if valid.is_empty() {
            self.copy(site.range.clone(), at);
            return;
        }
        match site.style {
            Style::Expression | Style::Statement => {
                self.text.push_str(open);
                for alternative in valid {
                    self.text.push_str(&format!("if {ON}({}) {{ ", alternative.number));
                    self.alternative(alternative);
                    self.text.push_str(" } else ");
                }
                self.text.push_str("{ ");
                self.copy(site.range.clone(), at);
                self.text.push_str(" }");
                self.text.push_str(close);
            }
            Style::Pattern => {
                self.copy(site.range.clone(), at);
                self.text.push_str(" if ");
                self.off(&valid);
            }
            Style::Guard => {
                self.off(&valid);
                self.text.push_str(" && (");
                self.copy(site.range.clone(), at);
                self.text.push(')');
            }
            Style::Entry => {
                for alternative in valid {
                    self.text.push_str(&format!(" if {ON}({}) {{ return ", alternative.number));
                    self.alternative(alternative);
                    self.text.push_str("; }");
                }
            }
        }
    }

    fn off(&mut self, alternatives: &[&Alternative]) {
        let start = self.text.len();
        let all: Vec<String> = alternatives.iter().map(|one| format!("!{ON}({})", one.number)).collect();
        self.text.push_str(&all.join(" && "));
        self.written.push(Written { range: start..self.text.len(), number: alternatives[0].number });
    }

    fn alternative(&mut self, alternative: &Alternative) {
        let start = self.text.len();
        self.text.push_str(&alternative.text);
        self.written.push(Written { range: start..self.text.len(), number: alternative.number });
    }
}

struct Finder<'a> {
    path: &'a str,
    source: &'a str,
    /// Its name, its text's hash, and how many mutants it has so far.
    function: Option<(String, u64, usize)>,
    /// What is only there for the simulator's own mutants (`Mutant` of the protocol machines) is left alone.
    is_silent: bool,
    sites: Vec<Site>,
    mutants: BTreeMap<usize, Mutant>,
    next: usize,
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let tokens = list.tokens.to_string();
                    tokens == "test" || tokens.starts_with("feature")
                })
    })
}

/// Whether it is, or has behind `&&`, a `let`: no value.
fn lets(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => lets(&binary.left) || lets(&binary.right),
        _ => false,
    }
}

/// Whether it holds only where a rule is broken on purpose: never, in a build for use.
fn never(expression: &Expr) -> bool {
    match expression {
        Expr::MethodCall(call) => call.method == "is_broken",
        Expr::Macro(of) => of.mac.path.is_ident("cfg") && of.mac.tokens.to_string().contains("\"mutants\""),
        Expr::Paren(inner) => never(&inner.expr),
        Expr::Binary(binary) => match binary.op {
            BinOp::And(_) => never(&binary.left) || never(&binary.right),
            BinOp::Or(_) => never(&binary.left) && never(&binary.right),
            BinOp::Eq(_) => names_a_rule(&binary.right),
            _ => false,
        },
        _ => false,
    }
}

/// `Some(Mutant::...)`.
fn names_a_rule(expression: &Expr) -> bool {
    let Expr::Call(call) = expression else { return false };
    matches!(call.args.first(), Some(Expr::Path(path)) if path.path.segments.iter().any(|part| part.ident == "Mutant"))
}

/// Whether it holds unless a rule is broken on purpose: always, in a build for use.
fn always(expression: &Expr) -> bool {
    match expression {
        Expr::Unary(unary) => matches!(unary.op, UnOp::Not(_)) && never(&unary.expr),
        Expr::Paren(inner) => always(&inner.expr),
        Expr::Binary(binary) => matches!(binary.op, BinOp::And(_)) && always(&binary.left) && always(&binary.right),
        _ => false,
    }
}

/// `_`, or a name for whatever comes; `None` is written as one.
fn takes_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(name) => {
            name.subpat.is_none() && name.ident.to_string().starts_with(|c: char| c.is_ascii_lowercase())
        }
        _ => false,
    }
}

/// Whether `&&`, `||` or `==` of it is as good as its opposite, or of the question for a broken rule alone.
fn is_question(binary: &ExprBinary) -> bool {
    match binary.op {
        BinOp::And(_) => never(&binary.left) && never(&binary.right) || always(&binary.left) && always(&binary.right),
        BinOp::Or(_) => never(&binary.left) && never(&binary.right),
        BinOp::Eq(_) => names_a_rule(&binary.right),
        _ => false,
    }
}

fn becomes(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["/"],
        BinOp::Div(_) | BinOp::Rem(_) => &["*"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) | BinOp::BitXor(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) | BinOp::BitXorAssign(_) => &["&="],
        _ => &[],
    }
}

fn is_assignment(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// Methods, and those that could have been meant.
const TWINS: &[(&str, &str)] = &[
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("push_back", "push_front"),
    ("push_front", "push_back"),
    ("pop_front", "pop_back"),
    ("pop_back", "pop_front"),
];

impl Finder<'_> {
    fn text(&self, span: Span) -> &str {
        &self.source[span.byte_range()]
    }

    fn push(&mut self, range: Range<usize>, style: Style, text: String, what: String) {
        let Some((name, hash, ordinal)) = &mut self.function else { return };
        if self.is_silent {
            *ordinal += 1;
            return;
        }
        let start = self.source[..range.start].rfind('\n').map_or(0, |end| end + 1);
        let mutant = Mutant {
            file: self.path.to_string(),
            line: self.source[..range.start].matches('\n').count() + 1,
            function: name.clone(),
            what,
            code: self.source[start..].lines().next().unwrap_or_default().trim().to_string(),
            hash: *hash,
            ordinal: *ordinal,
        };
        *ordinal += 1;
        self.mutants.insert(self.next, mutant);
        self.sites.push(Site { range, style, alternatives: vec![Alternative { number: self.next, text }] });
        self.next += 1;
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        let is_left_out = signature.constness.is_some() || is_for_tests(attributes) || signature.ident == "fmt";
        if is_left_out {
            return;
        }
        let whole = signature.span().byte_range().start..block.span().byte_range().end;
        let inner = (signature.ident.to_string(), hash(&self.source[whole]), 0);
        let outer = self.function.replace(inner);
        let entry = block.brace_token.span.open().byte_range().end;
        // What begins anew with `Default` itself would never end.
        let values = if signature.ident == "default" { Vec::new() } else { values(&signature.output) };
        for value in values {
            let what = if value.is_empty() { "does nothing".into() } else { format!("gives {value}") };
            self.push(entry..entry, Style::Entry, value, what);
        }
        visit::visit_block(self, block);
        self.function = outer;
    }

    /// Those that follow are none, as they change nothing in a build for use. Their numbers are those of every other.
    fn silently<R>(&mut self, is_so: bool, work: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.is_silent;
        self.is_silent |= is_so;
        let done = work(self);
        self.is_silent = before;
        done
    }

    fn condition(&mut self, condition: &Expr, may_hold: bool) {
        if lets(condition) {
            return;
        }
        let range = condition.span().byte_range();
        self.push(range.clone(), Style::Expression, "false".into(), "the condition never holds".into());
        if may_hold {
            self.silently(always(condition), |finder| {
                finder.push(range, Style::Expression, "true".into(), "the condition always holds".into());
            });
        }
    }
}

/// What a function may give instead.
fn values(output: &ReturnType) -> Vec<String> {
    let ReturnType::Type(_, kind) = output else { return vec![String::new()] };
    let texts: &[&str] = match &**kind {
        Type::Tuple(tuple) if tuple.elems.is_empty() => &[""],
        Type::Path(path) => match path.path.segments.last().map(|last| last.ident.to_string()).as_deref() {
            Some("bool") => &["true", "false"],
            Some("u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64") => &["0", "1"],
            Some("Option") => &["None"],
            Some("Result") => &["Ok(Default::default())"],
            _ => &["Default::default()"],
        },
        Type::Tuple(_) | Type::Array(_) => &["Default::default()"],
        _ => &[],
    };
    texts.iter().map(ToString::to_string).collect()
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    // Constants and types are worked out by the compiler, which runs no mutants.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(_)) = statement {
            let range = statement.span().byte_range();
            let is_left_out = match expression {
                Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) => true,
                Expr::Binary(binary) => is_assignment(&binary.op),
                _ => false,
            };
            if let Expr::Binary(binary) = expression {
                for operator in becomes(&binary.op).iter().filter(|_| is_assignment(&binary.op)) {
                    let (left, right) = (self.text(binary.left.span()), self.text(binary.right.span()));
                    let text = format!("{left} {operator} {right};");
                    let what = format!("`{}` becomes `{operator}`", self.text(binary.op.span()));
                    self.push(range.clone(), Style::Statement, text, what);
                }
            }
            if is_left_out {
                self.push(range, Style::Statement, String::new(), "the statement is left out".into());
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        let range = expression.span().byte_range();
        match expression {
            Expr::Binary(binary) if !is_assignment(&binary.op) && !lets(expression) => {
                for operator in becomes(&binary.op) {
                    let (left, right) = (self.text(binary.left.span()), self.text(binary.right.span()));
                    let text = format!("{left} {operator} {right}");
                    let what = format!("`{}` becomes `{operator}`", self.text(binary.op.span()));
                    self.silently(is_question(binary), |finder| {
                        finder.push(range.clone(), Style::Expression, text, what)
                    });
                }
                // Whatever else is asked for besides is of the broken rule.
                return self.silently(never(expression), |finder| visit::visit_expr(finder, expression));
            }
            Expr::Unary(unary) if never(&unary.expr) => {
                let text = self.text(unary.expr.span()).to_string();
                self.silently(true, |finder| finder.push(range, Style::Expression, text, String::new()));
            }
            Expr::Unary(unary) => {
                let sign = match unary.op {
                    UnOp::Not(_) => "!",
                    UnOp::Neg(_) => "-",
                    _ => "",
                };
                if !sign.is_empty() {
                    let text = self.text(unary.expr.span()).to_string();
                    self.push(range, Style::Expression, text, format!("`{sign}` is left out"));
                }
            }
            Expr::Macro(of) if of.mac.path.is_ident("matches") => {
                let text = format!("!{}", self.text(expression.span()));
                self.push(range, Style::Expression, text, "`matches!` is negated".into());
            }
            Expr::If(choice) if never(&choice.cond) => {
                self.silently(true, |finder| {
                    finder.condition(&choice.cond, true);
                    finder.visit_expr(&choice.cond);
                    finder.visit_block(&choice.then_branch);
                });
                if let Some((_, other)) = &choice.else_branch {
                    self.visit_expr(other);
                }
                return;
            }
            Expr::If(choice) => self.condition(&choice.cond, true),
            Expr::While(repeated) => self.condition(&repeated.cond, false),
            // Its length is a constant.
            Expr::Repeat(repeat) => return self.visit_expr(&repeat.expr),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        if let Some((_, twin)) = TWINS.iter().find(|(from, _)| *from == name) {
            let whole = call.span().byte_range();
            let method = call.method.span().byte_range();
            let text =
                format!("{}{twin}{}", &self.source[whole.start..method.start], &self.source[method.end..whole.end]);
            self.push(whole, Style::Expression, text, format!("`{name}` becomes `{twin}`"));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let is_so = arm.guard.as_ref().is_some_and(|(_, guard)| never(guard));
        self.silently(is_so, |finder| visit::visit_arm(finder, arm));
    }

    fn visit_expr_match(&mut self, choice: &'ast ExprMatch) {
        // Without its last arm, or with a guard there, a match need not be one any more.
        let has_rest = choice.arms.last().is_some_and(|arm| arm.guard.is_none() && takes_all(&arm.pat));
        for arm in &choice.arms {
            self.arm(arm, has_rest);
        }
        visit::visit_expr_match(self, choice);
    }
}

impl Finder<'_> {
    fn arm(&mut self, arm: &Arm, has_rest: bool) {
        match &arm.guard {
            Some((_, guard)) if !lets(guard) => {
                let range = guard.span().byte_range();
                self.silently(never(guard), |finder| {
                    finder.push(range.clone(), Style::Guard, String::new(), "the arm is left out".into());
                });
                self.silently(always(guard), |finder| {
                    finder.push(range, Style::Expression, "true".into(), "the guard always holds".into());
                });
            }
            None if has_rest && !takes_all(&arm.pat) => {
                let range = arm.pat.span().byte_range();
                self.push(range, Style::Pattern, String::new(), "the arm is left out".into());
            }
            None if matches!(*arm.body, Expr::Call(_) | Expr::MethodCall(_)) => {
                let range = arm.body.span().byte_range();
                self.push(range, Style::Expression, "Default::default()".into(), "the arm does nothing".into());
            }
            _ => {}
        }
    }
}
