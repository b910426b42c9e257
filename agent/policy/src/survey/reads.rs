//! What the conditions of a policy look at, from Cedar's syntax tree.
//!
//! Never: text. And never an outcome: that a policy looks at something says only that it may matter.

use std::collections::BTreeSet;

use cedar_policy::Policy;
use cedar_policy::pst::{BinaryOp, Clause, Expr, Literal, UnaryOp, Var};

/// What a policy looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) grant: bool,
    /// Whether there is a reason, or its words.
    pub(crate) reason: bool,
    /// Its words.
    pub(crate) reason_text: bool,
    pub(crate) fresh: bool,
    pub(crate) profile: bool,
    pub(crate) path: bool,
    pub(crate) time: bool,
    /// A user's or a node's name.
    pub(crate) name: bool,
    /// In a way that leaving things out of a question would not show.
    pub(crate) opaque: bool,
    /// It computes, and so can fail for some values.
    pub(crate) can_fail: bool,
    /// The texts in it: of these, profiles are looked for.
    pub(crate) texts: BTreeSet<String>,
}

impl Reads {
    pub(crate) fn of(policy: &Policy) -> Self {
        let mut reads = Self::default();
        let Ok(tree) = policy.to_pst() else {
            // Nothing is known about it: it looks at everything.
            reads.opaque();
            reads.can_fail = true;
            return reads;
        };
        let mut left: Vec<&Expr> = tree
            .body()
            .clauses()
            .iter()
            .map(|clause| match clause {
                Clause::When(expr) | Clause::Unless(expr) => &**expr,
            })
            .collect();
        // A list instead of recursion: conditions may be long chains.
        while let Some(expr) = left.pop() {
            reads.note(expr, &mut left);
        }
        reads
    }

    /// What its outcome depends on beyond what the survey asks for.
    pub(crate) fn told(&self) -> Vec<&'static str> {
        [
            (self.time, "the time"),
            (self.path, "the path"),
            (self.reason_text, "the words of the reason"),
            (self.name, "a name"),
            (self.opaque, "the whole context"),
        ]
        .into_iter()
        .filter_map(|(reads, what)| reads.then_some(what))
        .collect()
    }

    fn opaque(&mut self) {
        *self = Self {
            grant: true,
            reason: true,
            reason_text: true,
            fresh: true,
            profile: true,
            opaque: true,
            ..std::mem::take(self)
        };
    }

    fn note<'e>(&mut self, expr: &'e Expr, left: &mut Vec<&'e Expr>) {
        let is = |expr: &Expr, var: Var| matches!(expr, Expr::Var(seen) if *seen == var);
        match expr {
            Expr::Literal(Literal::String(text)) => {
                self.texts.insert(text.to_string());
            }
            Expr::Literal(_) => {}
            Expr::Var(Var::Context) => self.opaque(),
            Expr::Var(_) => {}
            Expr::GetAttr { expr, attr } if is(expr, Var::Context) => self.context(attr),
            Expr::GetAttr { expr, attr } => {
                self.name |= attr == "name";
                left.push(expr);
            }
            Expr::HasAttr { expr, attrs } if is(expr, Var::Context) => match attrs.first().as_str() {
                "reason" => self.reason = true,
                // Always there, but left out of a question.
                "time" | "path" => self.opaque(),
                _ => {}
            },
            Expr::HasAttr { expr, attrs } => {
                if attrs.first() == "name" {
                    self.opaque();
                }
                left.push(expr);
            }
            Expr::UnaryOp { op, expr } => {
                self.can_fail |= matches!(op, UnaryOp::Neg | UnaryOp::ToDate | UnaryOp::ToTime);
                left.push(expr);
            }
            Expr::BinaryOp { op, left: one, right } => {
                self.can_fail |= matches!(
                    op,
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Offset | BinaryOp::DurationSince
                );
                left.extend([&**one, &**right]);
            }
            Expr::Like { expr, .. } => left.push(expr),
            Expr::Is { expr, in_expr, .. } => {
                left.push(expr);
                left.extend(in_expr.iter().map(|expr| &**expr));
            }
            Expr::IfThenElse {
                cond,
                then_expr,
                else_expr,
            } => left.extend([&**cond, &**then_expr, &**else_expr]),
            Expr::Set(members) => left.extend(members.iter().map(|expr| &**expr)),
            Expr::Record(members) => left.extend(members.values().map(|expr| &**expr)),
            // Slots and unknowns have no place in the policies of a set; whatever comes later is looked at by nobody.
            _ => self.opaque(),
        }
    }

    fn context(&mut self, attr: &str) {
        match attr {
            "grant" => self.grant = true,
            "reason" => (self.reason, self.reason_text) = (true, true),
            "bundle" => self.fresh = true,
            "profile" => self.profile = true,
            "path" => self.path = true,
            "time" => self.time = true,
            // Always false here: no emergency account is asked about.
            "breakGlass" => {}
            _ => self.opaque(),
        }
    }
}

#[cfg(test)]
mod tests;
