//! Mutants of C, by its tokens: comments, preprocessor lines, strings and whatever is outside of functions stay.

use std::collections::BTreeSet;
use std::ops::Range;

use super::ledger::{Mutant, hash};

/// A mutant and the text that it replaces.
pub struct Edit {
    pub mutant: Mutant,
    pub range: Range<usize>,
    pub text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Word,
    Number,
    Sign,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    range: Range<usize>,
}

/// Longest first.
const SIGNS: &[&str] = &[
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=",
];

/// What an operator between two operands becomes.
const BETWEEN: &[(&str, &[&str])] = &[
    ("==", &["!="]),
    ("!=", &["=="]),
    ("<", &["<=", ">="]),
    ("<=", &["<", ">"]),
    (">", &[">=", "<="]),
    (">=", &[">", "<"]),
    ("&&", &["||"]),
    ("||", &["&&"]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["/"]),
    ("/", &["*"]),
    ("%", &["*"]),
    ("&", &["|"]),
    ("|", &["&"]),
    ("^", &["&"]),
    ("<<", &[">>"]),
    (">>", &["<<"]),
    ("+=", &["-="]),
    ("-=", &["+="]),
    ("|=", &["&="]),
    ("&=", &["|="]),
    ("^=", &["|="]),
];

/// Verdicts, and which one is returned in their place.
const VERDICTS: &[(&str, &str)] = &[
    ("ws_drop", "ws_to_sender(turn)"),
    ("ws_to_sender", "ws_to_controller(turn)"),
    ("ws_to_controller", "ws_to_sender(turn)"),
    ("ws_to_node", "ws_to_sender(turn)"),
    ("ws_tell_recovering", "ws_to_controller(turn)"),
    ("ws_tell_controller", "ws_to_sender(turn)"),
    ("ws_tell_stale", "ws_to_controller(turn)"),
    ("ws_tell_retenured", "ws_to_controller(turn)"),
];

/// No statement that can be left out begins with these.
const KEPT: &[&str] = &[
    "if",
    "for",
    "while",
    "do",
    "switch",
    "case",
    "default",
    "return",
    "else",
    "struct",
    "enum",
    "const",
    "int",
    "static",
    "_Static_assert",
];

fn tokens(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut is_line_new) = (0, true);
    while at < bytes.len() {
        let rest = &source[at..];
        let byte = bytes[at];
        if byte == b'\n' {
            is_line_new = true;
            at += 1;
        } else if byte.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if byte == b'#' && is_line_new {
            at += preprocessor(rest);
        } else if byte == b'"' || byte == b'\'' {
            at += quoted(bytes, at);
        } else {
            is_line_new = false;
            let (kind, length) = token(rest);
            tokens.push(Token { kind, range: at..at + length });
            at += length;
        }
    }
    tokens
}

/// Length of a line of the preprocessor, with those that it goes on in.
fn preprocessor(rest: &str) -> usize {
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        length += line.len();
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    length - usize::from(rest[..length].ends_with('\n'))
}

fn quoted(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != bytes[at] {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    end + 1 - at
}

fn token(rest: &str) -> (Kind, usize) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if rest.starts_with(is_word) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let kind = if rest.starts_with(|c: char| c.is_ascii_digit()) { Kind::Number } else { Kind::Word };
        return (kind, length);
    }
    (Kind::Sign, SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(1, |sign| sign.len()))
}

/// Every mutant of a file.
pub fn mutants(file: &str, source: &str) -> Vec<Edit> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    for body in bodies(source, &tokens) {
        let mut function = Function { file, source, tokens: &tokens, body, edits: Vec::new() };
        function.mutate();
        found.append(&mut function.edits);
    }
    found
}

/// Functions: the token of its name, and those of its body with its braces.
fn bodies(source: &str, tokens: &[Token]) -> Vec<(usize, Range<usize>)> {
    let text = |index: usize| &source[tokens[index].range.clone()];
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if text(at) == "{" {
            let end = closing(source, tokens, at);
            if at > 0 && text(at - 1) == ")" {
                let open = opening(source, tokens, at - 1);
                found.push((open - 1, at..end + 1));
            }
            at = end;
        }
        at += 1;
    }
    found
}

/// The token that closes what this one opens.
fn closing(source: &str, tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match &source[token.range.clone()] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len() - 1
}

/// The token that opens what this one closes.
fn opening(source: &str, tokens: &[Token], close: usize) -> usize {
    let mut depth = 0;
    for index in (0..=close).rev() {
        match &source[tokens[index].range.clone()] {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    0
}

struct Function<'a> {
    file: &'a str,
    source: &'a str,
    tokens: &'a [Token],
    body: (usize, Range<usize>),
    edits: Vec<Edit>,
}

impl Function<'_> {
    fn text(&self, index: usize) -> &str {
        &self.source[self.tokens[index].range.clone()]
    }

    fn span(&self, first: usize, last: usize) -> Range<usize> {
        self.tokens[first].range.start..self.tokens[last].range.end
    }

    fn push(&mut self, range: Range<usize>, text: String, what: String) {
        let name = self.text(self.body.0).to_string();
        let whole = self.span(self.body.0, self.body.1.end - 1);
        let start = self.source[..range.start].rfind('\n').map_or(0, |end| end + 1);
        let mutant = Mutant {
            file: self.file.to_string(),
            line: self.source[..range.start].matches('\n').count() + 1,
            function: name,
            what,
            code: self.source[start..].lines().next().unwrap_or_default().trim().to_string(),
            hash: hash(&self.source[whole]),
            ordinal: self.edits.len(),
        };
        self.edits.push(Edit { mutant, range, text });
    }

    fn mutate(&mut self) {
        let mut starts: BTreeSet<usize> = BTreeSet::new();
        for index in self.body.1.start + 1..self.body.1.end - 1 {
            self.operator(index);
            self.constant(index);
            self.condition(index);
            self.verdict(index);
            if self.is_start(index, &starts) && self.statement(index) {
                starts.insert(index);
            }
        }
    }

    /// Whether there is an operand before this token, so that it stands between two.
    fn follows_operand(&self, index: usize) -> bool {
        let before = self.text(index - 1);
        match self.tokens[index - 1].kind {
            Kind::Number => true,
            Kind::Word => !matches!(before, "return" | "case" | "sizeof" | "else"),
            Kind::Sign => matches!(before, ")" | "]"),
        }
    }

    fn operator(&mut self, index: usize) {
        let sign = self.text(index).to_string();
        let range = self.tokens[index].range.clone();
        if self.follows_operand(index) {
            let becomes = BETWEEN.iter().find(|(from, _)| *from == sign).map_or(&[][..], |(_, to)| to);
            for to in becomes {
                self.push(range.clone(), (*to).to_string(), format!("`{sign}` becomes `{to}`"));
            }
        } else if matches!(sign.as_str(), "!" | "~" | "-") {
            self.push(range.clone(), String::new(), format!("`{sign}` is left out"));
        }
        match sign.as_str() {
            "++" => self.push(range, "--".into(), "`++` becomes `--`".into()),
            "--" => self.push(range, "++".into(), "`--` becomes `++`".into()),
            _ => {}
        }
    }

    /// Numbers, and those that have a name in capitals.
    fn constant(&mut self, index: usize) {
        let (text, range) = (self.text(index).to_string(), self.tokens[index].range.clone());
        let next = self.text(index + 1);
        if self.tokens[index].kind == Kind::Number {
            let digits = text.trim_end_matches(['u', 'l', 'U', 'L']);
            let is_zero = digits == "0";
            self.push(range.clone(), format!("({text} + 1)"), format!("`{text}` is one more"));
            if !is_zero {
                self.push(range, format!("({text} - 1)"), format!("`{text}` is one less"));
            }
            return;
        }
        let is_named = !text.starts_with("__")
            && (text.starts_with("WS_") || (text.len() > 2 && !text.contains(|c: char| c.is_ascii_lowercase())));
        let is_value =
            next != "(" && self.text(index - 1) != "case" && !matches!(self.text(index - 1), "struct" | "enum");
        if self.tokens[index].kind != Kind::Word || !is_named || !is_value {
            return;
        }
        self.push(range.clone(), format!("({text} + 1)"), format!("`{text}` is one more"));
        if text.starts_with("WS_MAX_") || text.ends_with("_BYTES") || text.ends_with("_NONE") {
            self.push(range, format!("({text} - 1)"), format!("`{text}` is one less"));
        }
    }

    /// What decides: an `if` never, always and the other way round, `?` the other way round, a `case` left out.
    fn condition(&mut self, index: usize) {
        match self.text(index) {
            "if" if self.text(index + 1) == "(" => {
                let end = closing(self.source, self.tokens, index + 1);
                let range = self.span(index + 1, end);
                let asked = self.source[range.clone()].to_string();
                self.push(range.clone(), format!("(!{asked})"), "the condition is negated".into());
                self.push(range.clone(), format!("(0 && {asked})"), "the condition never holds".into());
                self.push(range, format!("(1 || {asked})"), "the condition always holds".into());
            }
            "?" => {
                let first = self.asked_from(index);
                let range = self.span(first, index - 1);
                let asked = self.source[range.clone()].to_string();
                self.push(range, format!("!({asked})"), "the condition of `?` is negated".into());
            }
            "case" => {
                let end = (index..).find(|at| self.text(*at) == ":").expect("a case ends");
                let range = self.span(index, end);
                let label = self.source[range.clone()].to_string();
                self.push(range, String::new(), format!("`{label}` is left out"));
            }
            _ => {}
        }
    }

    /// The first token of what `?` asks.
    fn asked_from(&self, question: usize) -> usize {
        let mut at = question;
        loop {
            match self.text(at - 1) {
                ")" | "]" => at = opening(self.source, self.tokens, at - 1),
                "(" | "[" | "{" | "}" | "," | ";" | "=" | "?" | ":" | "return" | "+=" | "|=" => return at,
                _ => at -= 1,
            }
        }
    }

    fn verdict(&mut self, index: usize) {
        let is_returned = matches!(self.text(index - 1), "return" | ":" | "?" | ",");
        let name = self.text(index).to_string();
        if let Some((_, other)) = VERDICTS.iter().find(|(from, _)| *from == name && is_returned)
            && self.text(index + 1) == "("
        {
            let range = self.span(index, closing(self.source, self.tokens, index + 1));
            self.push(range, (*other).to_string(), format!("`{name}` becomes `{other}`"));
        }
        if self.text(index - 1) == "return" && name.starts_with("WS_DROP_REASON_") && !name.ends_with("_NONE") {
            let range = self.tokens[index].range.clone();
            self.push(range, "WS_DROP_REASON_NONE".into(), format!("`{name}` becomes `WS_DROP_REASON_NONE`"));
        }
    }

    /// Whether a statement begins here. Heads of `for` and initializers have none.
    fn is_start(&self, index: usize, starts: &BTreeSet<usize>) -> bool {
        let before = self.text(index - 1);
        if before == ")" {
            let open = opening(self.source, self.tokens, index - 1);
            return matches!(self.text(open - 1), "if" | "for" | "while") && self.text(index) != "{";
        }
        if !matches!(before, ";" | "{" | "}" | ":" | "else") {
            return false;
        }
        let within = starts.iter().next_back().is_some_and(|start| self.end_of(*start) >= index);
        let mut depth = 0;
        for at in self.body.1.start..index {
            match self.text(at) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth -= 1,
                _ => {}
            }
        }
        depth == 0 && !within
    }

    /// The `;` of the statement that begins here.
    fn end_of(&self, start: usize) -> usize {
        let mut at = start;
        while at < self.body.1.end {
            match self.text(at) {
                "(" | "[" | "{" => at = closing(self.source, self.tokens, at),
                ";" => return at,
                _ => {}
            }
            at += 1;
        }
        self.body.1.end - 1
    }

    /// Leaves a statement out, if it is one of those that can be.
    fn statement(&mut self, start: usize) -> bool {
        let first = self.text(start);
        if KEPT.contains(&first) || self.tokens[start].kind != Kind::Word && first != "*" {
            return false;
        }
        let end = self.end_of(start);
        let range = self.span(start, end);
        self.push(range, ";".into(), "the statement is left out".into());
        true
    }
}
