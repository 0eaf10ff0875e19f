prelude
universe u v
unsafe axiom lcErased : Type
unsafe axiom lcAny : Type
set_option bootstrap.inductiveCheckResultingUniverse false in
inductive PUnit : Sort u where
  | unit : PUnit
inductive Bool : Type where
  | false : Bool
  | true : Bool
def id {α : Sort u} (a : α) : α := a
axiom sorryAx (α : Sort u) (synthetic : Bool) : α
inductive True : Prop where
  | intro : True
inductive False : Prop
structure And (a b : Prop) : Prop where
  intro ::
  left : a
  right : b
inductive Or (a b : Prop) : Prop where
  | inl (h : a) : Or a b
  | inr (h : b) : Or a b
inductive Eq {α : Sort u} : α → α → Prop where
  | refl (a : α) : Eq a a
noncomputable def Eq.ndrec.{w, z} {α : Sort z} {a : α} {motive : α → Sort w} (m : motive a) {b : α} (h : Eq a b) : motive b :=
  Eq.rec (motive := fun x _ => motive x) m h
inductive HEq {α : Sort u} : α → {β : Sort u} → β → Prop where
  | refl (a : α) : HEq a a
inductive N : Type where
  | zero : N
  | succ (n : N) : N
noncomputable def N.add (n m : N) : N := N.rec n (fun _ r => N.succ r) m
noncomputable def N.mul (n m : N) : N := N.rec N.zero (fun _ r => N.add r n) m
theorem N.succ_same {n m : N} (h : Eq n m) : Eq (N.succ n) (N.succ m) :=
  Eq.ndrec (motive := fun k => Eq (N.succ n) (N.succ k)) (Eq.refl (N.succ n)) h
axiom choice (p : Prop) : Or p (p → False)
