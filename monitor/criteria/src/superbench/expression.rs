//! The criterion of a rule: a lambda of one value, or of how often other rules were violated. A small grammar, which is
//! evaluated here: comparisons, `and`, `or`, `not`, arithmetic, `abs`, and `A if C else B`.

use std::collections::BTreeMap;

/// Longest text. Units: bytes. Source: our choice.
const MAX_TEXT: usize = 1000;
/// Parentheses and operators within each other at most. Source: our choice.
const MAX_DEPTH: usize = 32;

/// A criterion.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression(Node);

/// Why a criterion was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{why} at byte {at}: write a comparison such as `lambda x: x > 0.05`, with and, or, not, + - * /, abs() and `A if C else B`"
)]
pub struct ExpressionError {
    why: String,
    at: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(f64),
    /// The lambda's argument.
    Value,
    /// How often this rule was violated.
    Label(String),
    Negated(Box<Node>),
    Not(Box<Node>),
    Abs(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    /// Each with the next.
    Compared(Box<Node>, Vec<(Comparison, Node)>),
    Choice {
        condition: Box<Node>,
        then: Box<Node>,
        other: Box<Node>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Expression {
    /// Reads `lambda NAME: EXPRESSION`.
    ///
    /// # Errors
    /// What is not in the grammar, and where.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > MAX_TEXT {
            return Err(ExpressionError { why: format!("longer than {MAX_TEXT} bytes"), at: MAX_TEXT });
        }
        let mut parser = Parser { text, at: 0, argument: String::new(), depth: 0 };
        if !parser.word("lambda") {
            return parser.refuse("no `lambda`");
        }
        parser.argument = parser.name().map(str::to_owned).unwrap_or_default();
        if parser.argument.is_empty() || !parser.symbol(":") {
            return parser.refuse("no `NAME:`");
        }
        let node = parser.choice()?;
        parser.skip();
        if parser.at < text.len() { parser.refuse("something more") } else { Ok(Self(node)) }
    }

    /// Whether it holds of a value, with how often rules were violated.
    pub fn is_true(&self, value: f64, counts: &BTreeMap<&str, f64>) -> bool {
        is_true(self.0.evaluate(value, counts))
    }

    /// Rules that it names.
    pub fn labels(&self) -> Vec<&str> {
        let mut labels = Vec::new();
        self.0.labels(&mut labels);
        labels
    }
}

/// As Python has it; a share of what is not known is false in each comparison.
fn is_true(value: f64) -> bool {
    value != 0.0 && !value.is_nan()
}

impl Node {
    fn evaluate(&self, value: f64, counts: &BTreeMap<&str, f64>) -> f64 {
        let of = |node: &Node| node.evaluate(value, counts);
        let truth = |is_true: bool| f64::from(u8::from(is_true));
        match self {
            Self::Number(number) => *number,
            Self::Value => value,
            Self::Label(rule) => counts.get(rule.as_str()).copied().unwrap_or_default(),
            Self::Negated(node) => -of(node),
            Self::Not(node) => truth(!is_true(of(node))),
            Self::Abs(node) => of(node).abs(),
            Self::Binary(operator, one, other) => match operator {
                Operator::Add => of(one) + of(other),
                Operator::Subtract => of(one) - of(other),
                Operator::Multiply => of(one) * of(other),
                Operator::Divide => of(one) / of(other),
                Operator::And => truth(is_true(of(one)) && is_true(of(other))),
                Operator::Or => truth(is_true(of(one)) || is_true(of(other))),
            },
            Self::Compared(first, rest) => {
                let mut left = of(first);
                let holds = rest.iter().all(|(comparison, node)| {
                    let right = of(node);
                    let holds = comparison.holds(left, right);
                    left = right;
                    holds
                });
                truth(holds)
            }
            Self::Choice { condition, then, other } => of(if is_true(of(condition)) { then } else { other }),
        }
    }

    fn labels<'n>(&'n self, labels: &mut Vec<&'n str>) {
        match self {
            Self::Number(_) | Self::Value => {}
            Self::Label(rule) => labels.push(rule),
            Self::Negated(node) | Self::Not(node) | Self::Abs(node) => node.labels(labels),
            Self::Binary(_, one, other) => {
                one.labels(labels);
                other.labels(labels);
            }
            Self::Compared(first, rest) => {
                first.labels(labels);
                for (_, node) in rest {
                    node.labels(labels);
                }
            }
            Self::Choice { condition, then, other } => {
                for node in [condition, then, other] {
                    node.labels(labels);
                }
            }
        }
    }
}

impl Comparison {
    #[expect(clippy::float_cmp, reason = "`==` of a rule is meant exactly, of return codes")]
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    argument: String,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn refuse<T>(&self, why: &str) -> Result<T, ExpressionError> {
        Err(ExpressionError { why: why.to_owned(), at: self.at })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        self.skip();
        let is_there = self.rest().starts_with(symbol);
        self.at += if is_there { symbol.len() } else { 0 };
        is_there
    }

    fn name(&mut self) -> Option<&'t str> {
        self.skip();
        let rest = self.rest();
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        self.at += if is_name { end } else { 0 };
        is_name.then_some(name)
    }

    fn word(&mut self, word: &str) -> bool {
        let before = self.at;
        let is_there = self.name() == Some(word);
        if !is_there {
            self.at = before;
        }
        is_there
    }

    /// `A if C else B`.
    fn choice(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.refuse("too deep");
        }
        let then = self.either()?;
        let node = if self.word("if") {
            let condition = self.either()?;
            if !self.word("else") {
                return self.refuse("no `else`");
            }
            let other = self.choice()?;
            Node::Choice { condition: condition.into(), then: then.into(), other: other.into() }
        } else {
            then
        };
        self.depth -= 1;
        Ok(node)
    }

    fn either(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.both()?;
        while self.word("or") {
            node = Node::Binary(Operator::Or, node.into(), self.both()?.into());
        }
        Ok(node)
    }

    fn both(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.negation()?;
        while self.word("and") {
            node = Node::Binary(Operator::And, node.into(), self.negation()?.into());
        }
        Ok(node)
    }

    fn negation(&mut self) -> Result<Node, ExpressionError> {
        let mut count = 0;
        while self.word("not") {
            count += 1;
        }
        let node = self.comparison()?;
        Ok(if count % 2 == 1 { Node::Not(node.into()) } else { node })
    }

    fn comparison(&mut self) -> Result<Node, ExpressionError> {
        // The longer of those that begin alike come first.
        const SYMBOLS: [(&str, Comparison); 6] = [
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some((_, comparison)) = SYMBOLS.into_iter().find(|(symbol, _)| self.symbol(symbol)) {
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Node::Compared(first.into(), rest) })
    }

    fn sum(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.product()?;
        loop {
            let operator = match () {
                () if self.symbol("+") => Operator::Add,
                () if self.symbol("-") => Operator::Subtract,
                () => return Ok(node),
            };
            node = Node::Binary(operator, node.into(), self.product()?.into());
        }
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.sign()?;
        loop {
            let operator = match () {
                () if self.symbol("*") => Operator::Multiply,
                () if self.symbol("/") => Operator::Divide,
                () => return Ok(node),
            };
            node = Node::Binary(operator, node.into(), self.sign()?.into());
        }
    }

    fn sign(&mut self) -> Result<Node, ExpressionError> {
        let is_negated = self.symbol("-");
        if !is_negated {
            self.symbol("+");
        }
        let node = self.atom()?;
        Ok(if is_negated { Node::Negated(node.into()) } else { node })
    }

    fn atom(&mut self) -> Result<Node, ExpressionError> {
        if self.symbol("(") {
            let node = self.choice()?;
            return if self.symbol(")") { Ok(node) } else { self.refuse("no `)`") };
        }
        let before = self.at;
        match self.name() {
            Some("True") => Ok(Node::Number(1.0)),
            Some("False") => Ok(Node::Number(0.0)),
            Some("abs") if self.symbol("(") => {
                let node = self.choice()?;
                if self.symbol(")") { Ok(Node::Abs(node.into())) } else { self.refuse("no `)`") }
            }
            Some(name) if name == self.argument => {
                if self.symbol("[") {
                    self.label()
                } else {
                    Ok(Node::Value)
                }
            }
            Some(name) => {
                self.at = before;
                self.refuse(&format!("`{name}` is not known"))
            }
            None => self.number(),
        }
    }

    fn label(&mut self) -> Result<Node, ExpressionError> {
        let Some(quote) = ["\"", "'"].into_iter().find(|quote| self.symbol(quote)) else {
            return self.refuse("no quoted name");
        };
        let Some(end) = self.rest().find(quote) else { return self.refuse("no end of the name") };
        let name = self.rest()[..end].to_owned();
        self.at += end + 1;
        if self.symbol("]") { Ok(Node::Label(name)) } else { self.refuse("no `]`") }
    }

    fn number(&mut self) -> Result<Node, ExpressionError> {
        self.skip();
        let rest = self.rest().as_bytes();
        let is_part = |at: usize| {
            let is_exponents = at > 0 && rest[at - 1].eq_ignore_ascii_case(&b'e');
            rest[at].is_ascii_digit() || b".eE".contains(&rest[at]) || (is_exponents && b"+-".contains(&rest[at]))
        };
        let end = (0..rest.len()).find(|at| !is_part(*at)).unwrap_or(rest.len());
        match self.rest()[..end].parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += end;
                Ok(Node::Number(number))
            }
            _ => self.refuse("no number"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, value: f64) -> bool {
        Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).is_true(value, &BTreeMap::new())
    }

    #[test]
    fn criteria_are_evaluated_as_python_would() {
        for (text, yes, no) in [
            ("lambda x:x>0.05", 0.06, 0.05),
            ("lambda x:x<-0.05", -0.06, -0.05),
            ("lambda x: x != 0", 1.0, 0.0),
            ("lambda value: value == 1e2", 100.0, 99.0),
            ("lambda x: 1 < x <= 2", 2.0, 1.0),
            ("lambda x: abs(x - 3) > 1 and not x > 10", 5.0, 12.0),
            ("lambda x: x < 1 or x > 2 * (3 + 1)", 9.0, 2.0),
            ("lambda x:True if x > 5 else False", 6.0, 5.0),
            ("lambda x: 2 - 1 - x > 0", 0.5, 1.0),
        ] {
            assert!(holds(text, yes) && !holds(text, no), "{text}");
        }
        assert!(!holds("lambda x: x / 0 > 1 and x / 0 < 1", 0.0), "what is not known is false");
    }

    #[test]
    fn rules_over_several_count_what_was_violated() {
        let text = "lambda label:True if label[\"rule4\"]+label['rule5']>=2 else False";
        let expression = Expression::parse(text).expect("the documentation's example");
        assert_eq!(expression.labels(), ["rule4", "rule5"]);
        assert!(expression.is_true(0.0, &[("rule4", 1.0), ("rule5", 1.0)].into()));
        assert!(!expression.is_true(0.0, &[("rule4", 1.0)].into()));
    }

    #[test]
    fn what_is_no_criterion_is_refused_and_never_run() {
        for text in [
            "x > 0",
            "lambda x:",
            "lambda x: x >",
            "lambda x: __import__('os').system('id')",
            "lambda x: (lambda: 1)()",
            "lambda x: x.real > 0",
            "lambda x: open('/etc/passwd')",
            "lambda x: x > 0; 1",
            "lambda x: 9 ** 9",
            "lambda x: x[0] > 1",
            "lambda x: 1e999 > x",
            "lambda x: y > 1",
            "lambda x: x > 0 if x",
        ] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
        let deep = format!("lambda x: {}x{} > 0", "(".repeat(400), ")".repeat(400));
        assert_eq!(Expression::parse(&deep).map_err(|error| error.why), Err("too deep".to_owned()));
    }
}
