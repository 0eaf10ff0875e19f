(* The program that runs answers and their tests: toplevels of OCaml, in byte code, two processes an answer.

   The judge has the tests. It types the answer, for the types of its names, and never runs it: where the tests use a value of the answer,
   it asks the other process. A question is an expression: the name, applied to arguments as literals (a function as its source). The
   reply is a literal too; it is parsed, held against a list of harmless forms, typed against what the tests need, and only then a value.
   So whatever the answer does to its own process, it can only give values, without knowing what is expected, or end. *)

open Parsetree
open Inside
open Typing

exception Forbidden of string

(* What type checks and is not safe: C primitives under any type, accesses without bounds, the compiler's own modules; and the names that
   stand for the library and the tests in the judge, which an answer must not take. *)
let refuse_unsafe text =
  let begins start name = String.length name > String.length start && String.sub name 0 (String.length start) = start in
  let buffer = Lexing.from_string text in
  Lexer.init ();
  let rec each () =
    match Lexer.token buffer with
    | Parser.EOF -> ()
    | EXTERNAL -> raise (Forbidden "external")
    | LIDENT name when begins "unsafe_" name || begins "octavo_" name || name = "input_value" -> raise (Forbidden name)
    | UIDENT name when begins "Camlinternal" name || begins "Stdlib__" name || begins "Octavo_" name -> raise (Forbidden name)
    | _ -> each ()
  in
  each ()

let library_name = "Octavo_library"
let types_name = "Octavo_types"
let answer_name = "Octavo_answer"
let case_name = "octavo_case"
let value_name = "octavo_value"
let none name = Location.mknoloc (Longident.Lident name)

(* The library and the types of the language as the tests mean them: an answer may have hidden any of it. *)
let restored =
  [ Printf.sprintf "module %s = Stdlib" library_name;
    Printf.sprintf
      "module %s = struct module Stdlib = %s type bool = %s.Bool.t = false | true type 'a list = 'a %s.List.t = [] | (::) of 'a * 'a list type 'a \
       option = 'a %s.Option.t = None | Some of 'a type unit = %s.Unit.t = () end"
      types_name library_name library_name library_name library_name library_name ]

(* False when it raised. *)
let execute item = Toploop.execute_phrase false nowhere (Ptop_def [ item ])
let source text = List.iter (fun item -> ignore (execute item)) (parsed text)

let opened name =
  let open Ast_helper in
  Str.open_ (Opn.mk ~override:Override (Mod.ident (none name)))

let answer_module items =
  let open Ast_helper in
  Str.module_ (Mb.mk (Location.mknoloc (Some answer_name)) (Mod.structure items))

(* A value as a literal of OCaml, on any number of lines. *)
let shown value kind =
  let text = Buffer.create 64 in
  let formatter = Format.formatter_of_buffer text in
  Format.pp_set_geometry formatter ~max_indent:1_000_000 ~margin:1_000_001;
  Toploop.print_value !Toploop.toplevel_env value formatter kind;
  Format.pp_print_flush formatter ();
  Buffer.contents text

(* Type and value of a name of the toplevel. *)
let bound name =
  let _, description = Env.find_value_by_name (Longident.Lident name) !Toploop.toplevel_env in
  (description.Types.val_type, Toploop.getvalue name)

let bind_value expression =
  let open Ast_helper in
  execute (Str.value Nonrecursive [ Vb.mk (Pat.var (Location.mknoloc value_name)) expression ])

let in_stdlib env name = match Env.find_value_by_name (Longident.Lident name) env with _ -> true | exception _ -> false

(* Whether an item may hide a name of the library from the tests. Only plain definitions of other names surely do not. *)
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

(* What is opened over the library: the answer's names, and the library again where the answer may hide a part of it. *)
let scopes env items = answer_name :: (if List.exists (may_hide env) items then [ library_name; types_name ] else [])

let usual_overhead = (Gc.get ()).Gc.space_overhead

(* ---- the process that runs the answer ---- *)

(* A question: definitions of arguments that the answer may change, if any, then of a function without arguments that makes the call. It
   is called here, and not by a `try` of the question, whose typing would cost as much again. *)
let replied asked =
  let items = parsed asked in
  List.iter (fun item -> ignore (execute item)) items;
  let kind, thunk = bound value_name in
  let result = match (Ctype.expand_head !Toploop.toplevel_env kind).desc with Tarrow (_, _, result, _) -> result | _ -> kind in
  let outcome =
    match (Obj.obj thunk : unit -> Obj.t) () with
    | value -> Printf.sprintf "Ok (%s)" (shown value result)
    | exception error -> Printf.sprintf "Error (%s)" (shown (Obj.repr error) Predef.type_exn)
  in
  let changed = List.filter (fun name -> name <> value_name) (List.concat_map defined items) in
  String.concat ", " (outcome :: List.map (fun name -> let kind, value = bound name in shown value kind) changed)

let running env (before, answer) requests replies =
  let send = write_frame replies in
  refuse_unsafe answer;
  let items = parsed (before ^ answer) in
  Gc.set { (Gc.get ()) with space_overhead = usual_overhead };
  if not (execute (answer_module items)) then send "raised"
  else begin
    send "loaded";
    List.iter (fun name -> ignore (execute (opened name))) (scopes env items);
    try
      while true do
        let asked = read_frame requests in
        send (try replied asked with _ -> "")
      done
    with End_of_file -> ()
  end

(* ---- the judge: literals ---- *)

exception Not_literal
exception Broken_tests of string
exception Answer_ended

(* Raises Not_literal for whatever could do more than be a value. *)
let rec literal expression =
  match expression.pexp_desc with
  | Pexp_constant _ | Pexp_ident { txt = Lident ("nan" | "infinity" | "neg_infinity"); _ } -> ()
  | Pexp_construct (_, inner) | Pexp_variant (_, inner) -> Option.iter literal inner
  | Pexp_tuple inner | Pexp_array inner -> List.iter literal inner
  | Pexp_record (fields, None) -> List.iter (fun (_, inner) -> literal inner) fields
  | Pexp_apply ({ pexp_desc = Pexp_ident { txt = Ldot (Lident "Bytes", "of_string"); _ }; _ }, [ (Nolabel, inner) ]) -> literal inner
  | _ -> raise Not_literal

let parsed_literal text =
  match Parse.expression (Lexing.from_string text) with
  | expression ->
      literal expression;
      expression
  | exception _ -> raise Not_literal

(* The value of a literal, which must have this type. *)
let value_of expression kind =
  match bind_value expression with
  | true ->
      let own, value = bound value_name in
      (try Ctype.unify !Toploop.toplevel_env (Ctype.instance own) kind with _ -> raise Not_literal);
      value
  | false -> raise Not_literal
  | exception _ -> raise Not_literal

(* ---- the judge: questions ---- *)

(* A place where the tests use a value of the answer. *)
type site = { name : string; kind : Types.type_expr; mutable sources : (Asttypes.arg_label * expression) list }

let sites : site array ref = ref [||]
let ask : (string -> string) ref = ref (fun _ -> raise Answer_ended)
let broken = ref ""
let ended = ref false
let tests_broken reason =
  if !broken = "" then broken := reason;
  raise (Broken_tests reason)

let rec arguments kind =
  match (Ctype.expand_head !Toploop.toplevel_env kind).Types.desc with
  | Types.Tarrow (label, argument, result, _) ->
      let rest, final = arguments result in
      ((label, argument) :: rest, final)
  | _ -> ([], kind)

(* Whether values of a type can be changed in place, so that the tests may look at them again. *)
let changes kind =
  match (Ctype.expand_head !Toploop.toplevel_env kind).Types.desc with
  | Types.Tconstr (path, _, _) -> (
      List.mem (Path.name path) [ "array"; "bytes" ]
      ||
      match Env.find_type path !Toploop.toplevel_env with
      | { type_kind = Type_record (fields, _); _ } -> List.exists (fun field -> field.Types.ld_mutable = Asttypes.Mutable) fields
      | _ -> false
      | exception Not_found -> false)
  | _ -> false

(* Copy what the answer left in an argument. *)
let copied value text kind =
  match value_of (parsed_literal text) kind with
  | exception Not_literal -> ()
  | left ->
      if Obj.size left = Obj.size value && Obj.tag left = Obj.tag value && Obj.size value > 0 then
        if Obj.tag value = Obj.string_tag then Bytes.blit (Obj.obj left) 0 (Obj.obj value) 0 (min (Bytes.length (Obj.obj left)) (Bytes.length (Obj.obj value)))
        else if Obj.tag value = Obj.double_array_tag then Array.blit (Obj.obj left : float array) 0 (Obj.obj value) 0 (Obj.size value)
        else for place = 0 to Obj.size value - 1 do Obj.set_field value place (Obj.field left place) done

(* An argument in words that the other process reads: its value, or else its source where that means the same outside of the tests. *)
let worded site place label (value, kind) =
  let text = shown value kind in
  match ignore (parsed_literal text) with
  | () -> text
  | exception Not_literal -> (
      let same (other, _) = other = label || label = Asttypes.Nolabel in
      match List.nth_opt (List.filter same site.sources) place with
      | Some (_, expression) when (try ignore (Typecore.type_expression !Toploop.toplevel_env expression); true with _ -> false) ->
          Format.asprintf "%a" Pprintast.expression expression
      | _ -> tests_broken "they give the answer a value that cannot be handed to another process")

(* Whether a type holds one that the library defines, or a function: values of it may be no literals, and that is no fault of the answer. *)
let rec hides kind =
  match (Ctype.expand_head !Toploop.toplevel_env kind).Types.desc with
  | Types.Tconstr (path, inner, _) ->
      let of_library = match path with Path.Pdot _ -> Ident.name (Path.head path) <> answer_name | _ -> Path.name path = "lazy_t" in
      of_library || List.exists hides inner
  | Types.Ttuple inner -> List.exists hides inner
  | Types.Tarrow _ -> true
  | _ -> false

let exception_of expression =
  match value_of expression Predef.type_exn with value -> (Obj.obj value : exn) | exception Not_literal -> Failure "raised"

exception No_value

let called site given =
  let labels, result = arguments site.kind in
  let places = List.mapi (fun place (label, kind) -> (place, label, kind)) labels in
  let values = List.map2 (fun (place, label, kind) value -> (place, label, kind, value)) places given in
  let changing = List.filter (fun (_, _, kind, _) -> changes kind) values in
  let kept place = List.exists (fun (other, _, _, _) -> other = place) changing in
  let text (place, label, kind, value) = worded site place label (value, kind) in
  let bindings = List.map (fun ((place, _, _, _) as given) -> Printf.sprintf "let octavo_%d = (%s)\n" place (text given)) changing in
  let argument ((place, label, _, _) as given) =
    let text = if kept place then Printf.sprintf "octavo_%d" place else Printf.sprintf "(%s)" (text given) in
    match label with
    | Asttypes.Nolabel -> " " ^ text
    | Labelled name -> Printf.sprintf " ~%s:%s" name text
    | Optional name -> Printf.sprintf " ?%s:%s" name text
  in
  let call = String.concat "" (site.name :: List.map argument values) in
  let asked = String.concat "" bindings ^ Printf.sprintf "let %s () = %s" value_name call in
  let replied = try !ask asked with _ -> ended := true; raise Answer_ended in
  let no_value () =
    if hides result then tests_broken "they need a value that cannot be handed to another process";
    raise No_value
  in
  let outcome, others =
    match Parse.expression (Lexing.from_string replied) with
    | { pexp_desc = Pexp_tuple (first :: others); _ } when changing <> [] -> (first, others)
    | first -> (first, [])
    | exception _ -> no_value ()
  in
  (try List.iter2 (fun (_, _, kind, value) other -> copied value (Format.asprintf "%a" Pprintast.expression other) kind) changing others
   with Invalid_argument _ -> ());
  match outcome.pexp_desc with
  | Pexp_construct ({ txt; _ }, Some inner) when Longident.last txt = "Ok" -> (
      match literal inner; value_of inner result with value -> value | exception Not_literal -> no_value ())
  | Pexp_construct ({ txt; _ }, Some inner) when Longident.last txt = "Error" ->
      raise (match literal inner with () -> exception_of inner | exception Not_literal -> Failure "raised")
  | _ -> no_value ()

(* The value at a site: a function that asks when it has all of its arguments, else what the answer says. *)
let stand_in number =
  let site = !sites.(number) in
  let rec taking left given = if left = 0 then called site (List.rev given) else Obj.repr (fun argument -> taking (left - 1) (argument :: given)) in
  taking (List.length (fst (arguments site.kind))) []

let stand_in_name = "octavo_stand_in"

(* ---- the judge: tests ---- *)

let parsed_tests text = Parse.implementation (Lexing.from_string text)
let start expression = expression.pexp_loc.loc_start.pos_cnum

(* Where the assertions of an item begin, in order. *)
let assertions item =
  let starts = ref [] in
  let default = Ast_iterator.default_iterator in
  let expr self expression =
    (match expression.pexp_desc with Pexp_assert _ -> starts := start expression :: !starts | _ -> ());
    default.expr self expression
  in
  let self = { default with expr } in
  self.structure_item self item;
  List.sort_uniq compare !starts

(* Lower-case names that an expression of the tests uses without a path. *)
let used tests =
  let names = ref [] in
  let default = Ast_iterator.default_iterator in
  let expr self expression =
    (match expression.pexp_desc with Pexp_ident { txt = Lident name; _ } -> names := name :: !names | _ -> ());
    default.expr self expression
  in
  let self = { default with expr } in
  self.structure self tests;
  List.sort_uniq compare !names

(* Parse the tests and hold them against the standard library alone: broken tests are no answer's fault.
   Gives the items, and the names of the trusted text that must win over the library's. *)
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
  if List.concat_map assertions items = [] then raise (Broken_tests "they have no assertion");
  (items, List.filter (fun name -> List.mem name names) own)

(* By case: 0 = not run, 1 = passed, 2 = failed. *)
let seen : int array ref = ref [||]
let why = ref ""

let run_case number check =
  match check () with
  | true -> if !seen.(number) = 0 then !seen.(number) <- 1
  | false -> !seen.(number) <- 2
  | exception error ->
      !seen.(number) <- 2;
      if !why = "" then why := (match error with No_value -> "gives a value that cannot be written down" | _ -> line ("raised " ^ Printexc.exn_slot_name error))

exception Not_run

(* What stands for the answer's module at run time: exceptions of its own, and nothing that works. *)
let rec empty_module signature =
  let field : Types.signature_item -> Obj.t option = function
    | Sig_typext (id, _, _, _) ->
        let slot = Obj.new_block Obj.object_tag 2 in
        Obj.set_field slot 0 (Obj.repr (Ident.name id));
        Obj.set_field slot 1 (Obj.repr (Oo.id (object end)));
        Some slot
    | Sig_module (_, Mp_present, { md_type = Mty_signature inner; _ }, _, _) -> Some (empty_module inner)
    | Sig_value (_, { val_kind = Val_prim _; _ }, _) -> None
    | Sig_value _ | Sig_module (_, Mp_present, _, _, _) | Sig_class _ -> Some (Obj.repr (fun _ -> raise Not_run))
    | _ -> None
  in
  let fields = Array.of_list (List.filter_map field signature) in
  let block = Obj.new_block 0 (Array.length fields) in
  Array.iteri (Obj.set_field block) fields;
  if Array.length fields = 0 then Obj.repr 0 else block

(* Make the answer's names known, as types alone; the library's win over them, and the text's before the answer over those. Gives the
   paths of these last. *)
let known env items own =
  let typed structure =
    let _, signature, _, env = Typemod.type_structure !Toploop.toplevel_env structure in
    Toploop.toplevel_env := env;
    signature
  in
  (match typed [ answer_module items ] with
  | [ Types.Sig_module (_, _, { md_type = Mty_signature signature; _ }, _, _) ] -> Toploop.setvalue answer_name (empty_module signature)
  | _ -> ());
  List.iter (fun name -> ignore (typed [ opened name ])) (scopes env items);
  List.map
    (fun name ->
      ignore (typed (parsed (Printf.sprintf "let ( %s ) = %s.( %s )" name answer_name name)));
      Toploop.setvalue name (Obj.repr (fun _ -> raise Not_run));
      (fst (Env.find_value_by_name (Longident.Lident name) !Toploop.toplevel_env), name))
    own

(* The item with each value of the answer replaced by its stand-in, and each assertion by a case; [cases] are numbers by start. *)
let rewritten aliases cases item =
  let typed, _, _, _ = Typemod.type_structure !Toploop.toplevel_env [ item ] in
  let places = Hashtbl.create 8 in
  let rec path_text = function
    | Path.Pdot (above, name) -> Printf.sprintf "%s.( %s )" (Path.name above) name
    | path -> Path.name path
  and from_answer = function
    | Path.Pident id -> Ident.name id = answer_name
    | Path.Pdot (above, _) -> from_answer above
    | Path.Papply _ -> false
  in
  let expr (self : Tast_iterator.iterator) (expression : Typedtree.expression) =
    (match expression.exp_desc with
    | Texp_ident (path, _, _) ->
        let name =
          match List.assoc_opt path aliases with
          | Some name -> Some (Printf.sprintf "%s.( %s )" answer_name name)
          | None -> if from_answer path then Some (path_text path) else None
        in
        Option.iter (fun name -> Hashtbl.replace places expression.exp_loc (name, expression.exp_type)) name
    | _ -> ());
    Tast_iterator.default_iterator.expr self expression
  in
  let iterator = { Tast_iterator.default_iterator with expr } in
  iterator.structure iterator typed;
  let open Ast_helper in
  let default = Ast_mapper.default_mapper in
  let stand_in_for location sources =
    let name, kind = Hashtbl.find places location in
    sites := Array.append !sites [| { name; kind; sources } |];
    Exp.apply (Exp.ident (none stand_in_name)) [ (Nolabel, Exp.constant (Const.int (Array.length !sites - 1))) ]
  in
  let replaced (expression : expression) sources =
    Exp.ifthenelse (Exp.construct (none "false") None) expression (Some (stand_in_for expression.pexp_loc sources))
  in
  let expr (self : Ast_mapper.mapper) expression =
    match expression.pexp_desc with
    | Pexp_ident _ when Hashtbl.mem places expression.pexp_loc -> replaced expression []
    | Pexp_apply (({ pexp_desc = Pexp_ident _; _ } as called), given) when Hashtbl.mem places called.pexp_loc ->
        let inner = List.map (fun (label, one) -> (label, self.expr self one)) given in
        { expression with pexp_desc = Pexp_apply (replaced called given, inner) }
    | Pexp_assert inner ->
        let thunk = Exp.fun_ Nolabel None (Pat.any ()) (self.expr self inner) in
        let number = Exp.constant (Const.int (List.assoc (start expression) cases)) in
        Exp.apply (Exp.ident (none case_name)) [ (Nolabel, number); (Nolabel, thunk) ]
    | _ -> default.expr self expression
  in
  let mapper = { default with expr } in
  mapper.structure_item mapper item

let run_tests aliases tests =
  let cases = List.mapi (fun number start -> (start, number)) (List.sort compare (List.concat_map assertions tests)) in
  List.iter
    (fun item ->
      let failed () = List.iter (fun start -> !seen.(List.assoc start cases) <- 2) (assertions item) in
      match execute (rewritten aliases cases item) with
      | true -> ()
      | false -> failed ()
      | exception error ->
          failed ();
          if !why = "" then why := said error)
    tests

let judged env before answer tests tell =
  match if tests = "" then None else Some (prepared env before tests) with
  | exception Broken_tests reason -> tell "broken" reason
  | prepared -> (
      match parsed (before ^ answer) with
      | exception error -> tell "syntax" (said error)
      | items when is_empty items -> tell "empty" ""
      | items -> (
          match prepared with
          | None -> check env items tell
          | Some (tests, own) -> (
              ask := (fun asked -> write_frame (descriptor 4) asked; read_frame (descriptor 5));
              seen := Array.make (List.length (List.concat_map assertions tests)) 0;
              let counted reason =
                tell "cases" (String.concat "" (List.map (function 1 -> "+" | _ -> "-") (Array.to_list !seen)));
                tell "first" reason
              in
              match
                refuse_unsafe answer;
                known env items own
              with
              | exception Forbidden name -> tell "forbidden" name
              | exception error -> counted (said error)
              | aliases -> (
                  match read_frame (descriptor 5) with
                  | exception End_of_file -> tell "ended" ""
                  | "raised" -> tell "raised" ""
                  | _ ->
                      run_tests aliases tests;
                      if !ended then tell "ended" "" else if !broken <> "" then tell "broken" !broken else counted !why))))

let () =
  run (fun () ->
      Toploop.initialize_toplevel_env ();
      Toploop.max_printer_depth := 10_000;
      Toploop.max_printer_steps := 1_000_000;
      let env = !Toploop.toplevel_env in
      List.iter (fun text -> try source text with _ -> ()) (library ());
      source compilers_own;
      List.iter source restored;
      source (Printf.sprintf "let %s : int -> (unit -> bool) -> unit = fun _ _ -> ()" case_name);
      source (Printf.sprintf "let %s : int -> 'a = fun _ -> assert false" stand_in_name);
      Toploop.setvalue case_name (Obj.repr run_case);
      Toploop.setvalue stand_in_name (Obj.repr stand_in);
      (judged env, running env))
