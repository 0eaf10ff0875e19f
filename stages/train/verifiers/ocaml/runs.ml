(* The program that runs answers and their tests: a toplevel of OCaml, in byte code. *)

open Parsetree
open Inside
open Typing

exception Forbidden of string

(* What type checks and is not safe: C primitives under any type, accesses without bounds, the compiler's own modules. *)
let refuse_unsafe text =
  let begins start name = String.length name > String.length start && String.sub name 0 (String.length start) = start in
  let buffer = Lexing.from_string text in
  Lexer.init ();
  let rec each () =
    match Lexer.token buffer with
    | Parser.EOF -> ()
    | EXTERNAL -> raise (Forbidden "external")
    | LIDENT name when begins "unsafe_" name || name = "input_value" -> raise (Forbidden name)
    | UIDENT name when begins "Camlinternal" name || begins "Stdlib__" name -> raise (Forbidden name)
    | _ -> each ()
  in
  each ()

(* ---- tests ---- *)

(* Made once a zygote, before the filter closes: a part of the names that no answer can know. *)
let secret =
  let source = open_in_bin "/dev/urandom" in
  let bytes = really_input_string source 16 in
  close_in source;
  String.concat "" (List.map (fun byte -> Printf.sprintf "%02x" (Char.code byte)) (List.of_seq (String.to_seq bytes)))

let library_name = "Library_" ^ secret
let case_name = "octavo_case_" ^ secret
let parsed_tests text = Parse.implementation (Lexing.from_string text)

(* Every `assert e` of the tests becomes `octavo_case number (fun () -> e)`; also gives their number. *)
let as_cases tests =
  let starts = ref [] in
  let start expression = expression.pexp_loc.loc_start.pos_cnum in
  let seeing = Ast_iterator.default_iterator in
  let expr self expression =
    (match expression.pexp_desc with Pexp_assert _ -> starts := start expression :: !starts | _ -> ());
    seeing.expr self expression
  in
  let seeing = { seeing with expr } in
  seeing.structure seeing tests;
  let starts = List.sort_uniq compare !starts in
  let number expression =
    let rec place at = function first :: rest -> if first = start expression then at else place (at + 1) rest | [] -> raise Not_found in
    place 0 starts
  in
  let default = Ast_mapper.default_mapper in
  let expr self expression =
    match expression.pexp_desc with
    | Pexp_assert inner ->
        let open Ast_helper.Exp in
        let thunk = fun_ Nolabel None (Ast_helper.Pat.any ()) (self.Ast_mapper.expr self inner) in
        apply
          (ident (Location.mknoloc (Longident.Lident case_name)))
          [ (Nolabel, constant (Ast_helper.Const.int (number expression))); (Nolabel, thunk) ]
    | _ -> default.expr self expression
  in
  let self = { default with expr } in
  (self.structure self tests, List.length starts)

(* Lower-case names that an expression of the tests uses without a path. *)
let used tests =
  let found = ref [] in
  let default = Ast_iterator.default_iterator in
  let expr self expression =
    (match expression.pexp_desc with Pexp_ident { txt = Lident name; _ } -> found := name :: !found | _ -> ());
    default.expr self expression
  in
  let self = { default with expr } in
  self.structure self tests;
  List.sort_uniq compare !found

let in_stdlib env name = match Env.find_value_by_name (Longident.Lident name) env with _ -> true | exception _ -> false

exception Broken_tests of string

(* Parse the tests and hold them against the standard library alone: broken tests are no answer's fault.
   Gives the cases, their number, and the names of the trusted text that must win over the library's. *)
let prepared env before tests =
  let items = try parsed_tests tests with error -> raise (Broken_tests ("they do not parse: " ^ said error)) in
  let head = try parsed (before ^ "\nassert false") with _ -> [] in
  let own = List.concat_map defined head in
  let names = used items in
  let calls = List.filter (fun name -> List.mem name own || not (in_stdlib env name)) names in
  let bound = List.concat_map defined items in
  if List.for_all (fun name -> List.mem name bound) calls then raise (Broken_tests "they use no name that an answer could define");
  (if calls <> [] && List.for_all (fun name -> List.mem name own || List.mem name bound) calls then
     match Typemod.type_structure env head with
     | exception _ -> ()
     | _, _, _, with_head -> (
         try ignore (Typemod.type_structure with_head items)
         with error -> raise (Broken_tests ("they do not fit the text before the answer: " ^ said error))));
  let cases, count = as_cases items in
  if count = 0 then raise (Broken_tests "they have no assertion");
  (cases, count, List.filter (fun name -> List.mem name names) own)

let seen : int array ref = ref [||] (* by case: 0 = not run, 1 = passed, 2 = failed *)
let why = ref ""

let run_case number check =
  match check () with
  | true -> if !seen.(number) = 0 then !seen.(number) <- 1
  | false -> !seen.(number) <- 2
  | exception error ->
      !seen.(number) <- 2;
      if !why = "" then why := line ("raised " ^ Printexc.exn_slot_name error)

(* False when it raised. *)
let execute item = Toploop.execute_phrase false nowhere (Ptop_def [ item ])

let opened name =
  let open Ast_helper in
  Str.open_ (Opn.mk ~override:Override (Mod.ident (Location.mknoloc (Longident.Lident name))))

let source text = List.iter (fun item -> ignore (execute item)) (parsed text)

exception Raised

(* Whether an item may hide a name of the standard library from the tests. Only plain definitions of other names surely do not. *)
let may_hide env item =
  let rec plain pattern =
    match pattern.ppat_desc with
    | Ppat_any | Ppat_construct ({ txt = Lident "()"; _ }, None) -> true
    | Ppat_var { txt; _ } -> not (in_stdlib env txt)
    | Ppat_constraint (inner, _) -> plain inner
    | Ppat_tuple inner -> List.for_all plain inner
    | _ -> false
  in
  match item.pstr_desc with
  | Pstr_attribute _ | Pstr_eval _ -> false
  | Pstr_value (_, bindings) -> not (List.for_all (fun one -> plain one.pvb_pat) bindings)
  | _ -> true

let usual_overhead = (Gc.get ()).Gc.space_overhead

(* Run an answer and its tests. The tests see the answer's names, but none that hides the standard library's: `let (=) _ _ = true`,
   `module List = ...` and `module Stdlib = ...` in an answer change nothing for them. Opening the library over an answer that hides
   nothing would change nothing either, and takes a fourth of a job. *)
let run_tests env nonce items cases own =
  let open Ast_helper in
  let answer = "Answer_" ^ nonce in
  Gc.set { (Gc.get ()) with space_overhead = usual_overhead };
  if not (execute (Str.module_ (Mb.mk (Location.mknoloc (Some answer)) (Mod.structure items)))) then raise Raised;
  ignore (execute (opened answer));
  if List.exists (may_hide env) items then begin
    ignore (execute (opened library_name));
    List.iter (fun name -> source (Printf.sprintf "let %s = %s.%s" name answer name)) own
  end;
  List.iter (fun item -> ignore (execute item)) cases

(* ---- a job ---- *)

let judged env nonce before answer tests tell =
  match if tests = "" then None else Some (prepared env before tests) with
  | exception Broken_tests reason -> tell "broken" reason
  | prepared -> (
      match parsed (before ^ answer) with
      | exception error -> tell "syntax" (said error)
      | items when is_empty items -> tell "empty" ""
      | items -> (
          tell "items" (string_of_int (List.length items));
          match prepared with
          | None -> check env items tell
          | Some (cases, count, own) -> (
              seen := Array.make count 0;
              let counted reason =
                tell "cases" (String.concat "" (List.map (function 1 -> "+" | _ -> "-") (Array.to_list !seen)));
                tell "first" reason
              in
              match
                refuse_unsafe answer;
                run_tests env nonce items cases own
              with
              | () -> counted !why
              | exception Forbidden name -> tell "forbidden" name
              | exception Raised -> tell "raised" ""
              | exception error -> counted (said error))))

let () =
  run (fun () ->
      Toploop.initialize_toplevel_env ();
      let env = !Toploop.toplevel_env in
      List.iter (fun text -> try source text with _ -> ()) (library ());
      source compilers_own;
      source (Printf.sprintf "module %s = Stdlib\nlet %s : int -> (unit -> bool) -> unit = fun _ _ -> ()" library_name case_name);
      Toploop.setvalue case_name (Obj.repr run_case);
      judged env)
