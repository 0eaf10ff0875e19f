(* The program that runs answers and their tests: toplevels of OCaml, in byte code, two processes an answer.

   The judge has the tests. It compiles the answer, hands the code to the other process and never runs it: where the tests use a value of
   the answer, it asks the other process. A question is a place in the answer's module with arguments and the result's type, or, where that
   does not say all, an expression: a name, applied to literals (a function as its source). The reply is a literal too; it is parsed, held against a list of
   harmless forms, typed against what the tests need, and only then a value. So whatever the answer does to its own process, it can only
   give values, without knowing what is expected, or end.

   How many cases there are, and whether the tests can be used at all, is said by a third process, which never sees an answer. *)

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

(* The library, and the types and exceptions of the language, as the tests mean them: an answer may have hidden any of it. *)
let restored =
  let types = "int char string bytes float" and exceptions =
    "Match_failure Assert_failure Invalid_argument Failure Not_found Out_of_memory Stack_overflow Sys_error End_of_file Division_by_zero" in
  let each names text = String.concat " " (List.map text (String.split_on_char ' ' names)) in
  let of_library name = Printf.sprintf "type %s = %s.%s.t" name library_name (String.capitalize_ascii name) in
  [ Printf.sprintf "module %s = Stdlib" library_name;
    Printf.sprintf
      "module %s = struct module Stdlib = %s type bool = %s.Bool.t = false | true type 'a list = 'a %s.List.t = [] | (::) of 'a * 'a list type 'a \
       option = 'a %s.Option.t = None | Some of 'a type unit = %s.Unit.t = () type 'a array = 'a %s.Array.t type exn = %s.Printexc.t %s %s end"
      types_name library_name library_name library_name library_name library_name library_name library_name (each types of_library)
      (each exceptions (fun name -> Printf.sprintf "exception %s = %s" name name)) ]

(* ---- typed items are run as a toplevel runs them, less what it does for its prompt ---- *)

let typed items =
  Typecore.reset_delayed_checks ();
  let typed, signature, _, env = Typemod.type_toplevel_phrase !Toploop.toplevel_env items in
  Typecore.force_delayed_checks ();
  (typed, signature, env)

let byte_code items =
  let first, functions = Bytegen.compile_phrase (Simplif.simplify_lambda (Translmod.transl_toplevel_definition items)) in
  let code, relocated, _ = Emitcode.to_memory first functions in
  (code, relocated)

(* Raises what the code raises. *)
let run_code (code, relocated) =
  Symtable.patch_object code relocated;
  Symtable.check_global_initialized relocated;
  Symtable.update_global_table ();
  ignore ((snd (Meta.reify_bytecode code [||] None)) ())

let run_typed items env =
  let code = byte_code items in
  Toploop.toplevel_env := env;
  run_code code

let execute item =
  let items, _, env = typed [ item ] in
  run_typed items env

let source text = List.iter execute (parsed text)

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

(* ---- types, and literals as values without the type checker, which costs a hundred times as much ---- *)

let expanded kind = (Ctype.expand_head !Toploop.toplevel_env kind).Types.desc

(* Arguments of a function with their labels, and its result. *)
let rec arguments kind =
  match expanded kind with
  | Types.Tarrow (label, argument, result, _) ->
      let rest, final = arguments result in
      ((label, argument) :: rest, final)
  | _ -> ([], kind)

exception Not_plain

let rec items_of_list expression =
  match expression.pexp_desc with
  | Pexp_construct ({ txt = Lident "[]"; _ }, None) -> []
  | Pexp_construct ({ txt = Lident "::"; _ }, Some { pexp_desc = Pexp_tuple [ first; rest ]; _ }) -> first :: items_of_list rest
  | _ -> raise Not_plain

let tuple parts =
  let block = Obj.new_block 0 (List.length parts) in
  List.iteri (Obj.set_field block) parts;
  block

(* The value of a literal whose type is made of the language's own. Raises an exception for all others. *)
let rec plain_value kind expression =
  match (expanded kind, expression.pexp_desc) with
  | Types.Ttuple kinds, Pexp_tuple parts -> tuple (List.map2 plain_value kinds parts)
  | Tconstr (path, inner, _), form -> (
      let is = Path.same path in
      match (inner, form) with
      | [], Pexp_constant (Pconst_integer (digits, None)) when is Predef.path_int -> Obj.repr (int_of_string digits)
      | [], Pexp_constant (Pconst_char letter) when is Predef.path_char -> Obj.repr letter
      | [], Pexp_constant (Pconst_string (text, _, _)) when is Predef.path_string -> Obj.repr text
      | [], Pexp_constant (Pconst_float (digits, None)) when is Predef.path_float -> Obj.repr (float_of_string digits)
      | [], Pexp_construct ({ txt = Lident (("true" | "false") as word); _ }, None) when is Predef.path_bool -> Obj.repr (word = "true")
      | [], Pexp_construct ({ txt = Lident "()"; _ }, None) when is Predef.path_unit -> Obj.repr ()
      | [ _ ], Pexp_construct ({ txt = Lident "None"; _ }, None) when is Predef.path_option -> Obj.repr None
      | [ inner ], Pexp_construct ({ txt = Lident "Some"; _ }, Some part) when is Predef.path_option -> Obj.repr (Some (plain_value inner part))
      | [ inner ], Pexp_construct _ when is Predef.path_list -> Obj.repr (List.map (plain_value inner) (items_of_list expression))
      | _ -> raise Not_plain)
  | _ -> raise Not_plain

(* A type of the language's own in words that mean the same whatever is opened. Raises Not_plain for all others. *)
let rec plain_words kind =
  match expanded kind with
  | Types.Ttuple inner -> "(" ^ String.concat " * " (List.map plain_words inner) ^ ")"
  | Tconstr (path, inner, _) when List.exists (Path.same path) Predef.[ path_int; path_char; path_string; path_float; path_bool; path_unit; path_option; path_list ] ->
      String.concat " " (List.map plain_words inner @ [ Path.name path ])
  | _ -> raise Not_plain

let is_plain kind = match plain_words kind with _ -> true | exception Not_plain -> false

(* ---- the process that runs the answer ---- *)

let outcome compute kind =
  match compute () with
  | value -> Printf.sprintf "Ok (%s)" (shown value kind)
  | exception error -> Printf.sprintf "Error (%s)" (shown (Obj.repr error) Predef.type_exn)

(* The types of the answer, which only some questions need: the code came without them. *)
let answer_types = ref (lazy ())

let kind_of text =
  let translated () =
    Typetexp.reset_type_variables ();
    (Typetexp.transl_simple_type !Toploop.toplevel_env false (Parse.core_type (Lexing.from_string text))).ctyp_type
  in
  try translated ()
  with _ ->
    Lazy.force !answer_types;
    translated ()

let kinds : (string, Types.type_expr) Hashtbl.t = Hashtbl.create 8

(* A question: where a value lies in the answer's module, as numbers of fields, arguments, and the result's type; or OCaml. *)
type question = Plain of int list * Obj.t list * string | Typed of string

(* What a function of the answer gives, or a value. *)
let replied_plainly place given kind =
  let value = List.fold_left Obj.field (Toploop.getvalue answer_name) place in
  if not (Hashtbl.mem kinds kind) then Hashtbl.add kinds kind (kind_of kind);
  outcome (fun () -> List.fold_left (fun called argument -> (Obj.obj called : Obj.t -> Obj.t) argument) value given) (Hashtbl.find kinds kind)

(* Of a question that is OCaml: definitions of arguments that the answer may change, if any, then of a function without arguments that makes
   the call. It is called here, and not by a `try` of the question, whose typing would cost as much again. *)
let replied_as_typed asked =
  Lazy.force !answer_types;
  let items = parsed asked in
  List.iter execute items;
  let kind, thunk = bound value_name in
  let result = match expanded kind with Tarrow (_, _, result, _) -> result | _ -> kind in
  let changed = List.filter (fun name -> name <> value_name) (List.concat_map defined items) in
  let reply = outcome (Obj.obj thunk : unit -> Obj.t) result in
  String.concat ", " (reply :: List.map (fun name -> let kind, value = bound name in shown value kind) changed)

let ask_typed = "?"

let replied = function
  | Typed asked -> ( try replied_as_typed asked with _ -> "")
  | Plain (place, given, kind) -> ( try replied_plainly place given kind with _ -> ask_typed)

let running env (before, answer) requests replies =
  let send = write_frame replies in
  let name, code = Marshal.from_string (read_frame requests) 0 in
  Gc.set { (Gc.get ()) with space_overhead = usual_overhead };
  (answer_types :=
     lazy
       (let items = parsed (before ^ answer) in
        let know items =
          let _, _, env = typed items in
          Toploop.toplevel_env := env
        in
        know [ answer_module items ];
        List.iter (fun name -> know [ opened name ]) (scopes env items)));
  match run_code code with
  | exception _ -> send "raised"
  | () -> (
      Toploop.setvalue answer_name (Toploop.getvalue name);
      send "loaded";
      try
        while true do
          send (replied (Marshal.from_string (read_frame requests) 0))
        done
      with End_of_file -> ())

(* ---- the judge: literals ---- *)

exception Not_literal
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

(* Without the modules that the toplevel writes before labels of a constructor's own record, where none may stand. *)
let without_modules expression =
  let default = Ast_mapper.default_mapper in
  let bare label = { label with Location.txt = Longident.Lident (Longident.last label.Location.txt) } in
  let expr (self : Ast_mapper.mapper) expression =
    match (default.expr self expression).pexp_desc with
    | Pexp_construct (name, Some ({ pexp_desc = Pexp_record (fields, None); _ } as record)) ->
        let fields = List.map (fun (label, inner) -> (bare label, inner)) fields in
        { expression with pexp_desc = Pexp_construct (name, Some { record with pexp_desc = Pexp_record (fields, None) }) }
    | pexp_desc -> { expression with pexp_desc }
  in
  let mapper = { default with expr } in
  mapper.expr mapper expression

(* A value that is no literal, whose source means nothing outside of the tests, or of a type that the answer hides. *)
exception No_value

(* Whether one was needed or given since the last case: no `try` of the tests makes up for it. *)
let unwritten = ref false

let no_value () =
  unwritten := true;
  raise No_value

(* The value of a literal, whose type must be at least as general: a function that gives any type at all gives no literal, which the tests
   would use as what it is not. *)
let value_of expression kind =
  let typed expression =
    bind_value expression;
    let own, value = bound value_name in
    Ctype.moregeneral !Toploop.toplevel_env true own kind;
    value
  in
  try plain_value kind expression with _ -> ( try typed expression with _ -> ( try typed (without_modules expression) with _ -> raise Not_literal))

(* ---- the judge: questions ---- *)

(* A place where the tests use a value of the answer: its name as a path and in an expression, and its type there; [words]: the result's type. *)
type site = { path : Path.t; kind : Types.type_expr; words : string Lazy.t; sources : Typedtree.expression option list }

let sites : site array ref = ref [||]
let ask : (question -> string) ref = ref (fun _ -> raise Answer_ended)
let ended = ref false

(* Whether values of a type can be changed in place, so that the tests may look at them again. *)
let changes kind =
  match expanded kind with
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

(* Whether an expression of the tests means the same outside of them. *)
let is_closed env expression = match Typecore.type_expression env expression with _ -> true | exception _ -> false

(* An argument in words that the other process reads: its value, or else its source. *)
let worded site place value kind =
  let text = shown value kind in
  match parsed_literal text with
  | expression when String.contains text '{' && not (is_closed !Toploop.toplevel_env expression) ->
      Format.asprintf "%a" Pprintast.expression (without_modules expression)
  | _ -> text
  | exception Not_literal -> (
      match Option.map Untypeast.untype_expression (Option.join (List.nth_opt site.sources place)) with
      | Some expression when is_closed !Toploop.toplevel_env expression -> Format.asprintf "%a" Pprintast.expression expression
      | _ -> no_value ())

let exception_of expression =
  match value_of expression Predef.type_exn with value -> (Obj.obj value : exn) | exception Not_literal -> Failure "raised"

let long_reply = 1 lsl 16

(* A long literal nests deeper than an answer's code may. *)
let replied asked =
  match !ask asked with
  | exception _ -> ended := true; raise Answer_ended
  | reply ->
      if String.length reply > long_reply then Gc.set { (Gc.get ()) with stack_limit = 8 lsl 20 };
      reply

(* What is asked as OCaml, with the arguments that the answer may change by name. *)
let question site values changing =
  let kept place = List.exists (fun (other, _, _, _) -> other = place) changing in
  let text (place, _, kind, value) = worded site place value kind in
  let name = match site.path with Path.Pdot (above, name) -> Printf.sprintf "%s.( %s )" (Path.name above) name | path -> Path.name path in
  let bindings = List.map (fun ((place, _, _, _) as given) -> Printf.sprintf "let octavo_%d = (%s)\n" place (text given)) changing in
  let argument ((place, label, _, _) as given) =
    let text = if kept place then Printf.sprintf "octavo_%d" place else Printf.sprintf "(%s)" (text given) in
    match label with
    | Asttypes.Nolabel -> " " ^ text
    | Labelled name -> Printf.sprintf " ~%s:%s" name text
    | Optional name -> Printf.sprintf " ?%s:%s" name text
  in
  String.concat "" (bindings @ [ Printf.sprintf "let %s () = %s" value_name (String.concat "" (name :: List.map argument values)) ])

(* Where a value lies in the answer's module. Raises Not_found for primitives and values of other modules. *)
let place_of path =
  let rec fields = function
    | Env.Adot (above, field) -> fields above @ [ field ]
    | Aident id -> if Ident.name id = answer_name then [] else raise Not_found
  in
  fields (Env.find_value_address path !Toploop.toplevel_env)

let called site given =
  let labels, result = arguments site.kind in
  let values = List.map2 (fun (place, (label, kind)) value -> (place, label, kind, value)) (List.mapi (fun place one -> (place, one)) labels) given in
  let changing = List.filter (fun (_, _, kind, _) -> changes kind) values in
  let reply =
    let plainly =
      match if List.for_all (fun (_, kind) -> is_plain kind) labels then place_of site.path else raise Not_found with
      | exception _ -> ask_typed
      | place -> replied (Plain (place, given, Lazy.force site.words))
    in
    if plainly = ask_typed then replied (Typed (question site values changing)) else plainly
  in
  let outcome, others =
    match Parse.expression (Lexing.from_string reply) with
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

(* `let* x = e in body` is a call of ( let* ), which may be the answer's. *)
let parsed_tests text =
  let open Ast_helper in
  let default = Ast_mapper.default_mapper in
  let called operator arguments = Exp.apply (Exp.ident { operator with txt = Lident operator.Location.txt }) (List.map (fun one -> (Asttypes.Nolabel, one)) arguments) in
  let expr (self : Ast_mapper.mapper) expression =
    match default.expr self expression with
    | { pexp_desc = Pexp_letop { let_; ands; body }; _ } ->
        let join (pattern, value) other = (Pat.tuple [ pattern; other.pbop_pat ], called other.pbop_op [ value; other.pbop_exp ]) in
        let pattern, value = List.fold_left join (let_.pbop_pat, let_.pbop_exp) ands in
        { expression with pexp_desc = (called let_.pbop_op [ value; Exp.fun_ Nolabel None pattern body ]).pexp_desc }
    | expression -> expression
  in
  let mapper = { default with expr } in
  mapper.structure mapper (Parse.implementation (Lexing.from_string text))
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

(* Names that patterns of the tests bind. *)
let locals tests =
  let names = ref [] in
  let default = Ast_iterator.default_iterator in
  let pat self pattern =
    (match pattern.ppat_desc with Ppat_var { txt; _ } | Ppat_alias (_, { txt; _ }) -> names := txt :: !names | _ -> ());
    default.pat self pattern
  in
  let self = { default with pat } in
  self.structure self tests;
  !names

(* What is wrong with tests; the answer's process never sees this. *)
exception Broken_tests of string

let broken reason = raise (Broken_tests reason)

(* Whether a type holds one that the library hides, or a function: values of it are no literals. [above]: types that hold it. *)
let rec hides above kind =
  match expanded kind with
  | Types.Tconstr (path, inner, _) when not (List.exists (Path.same path) above) ->
      let parts =
        match (path, Env.find_type path !Toploop.toplevel_env) with
        | _, { type_kind = Type_variant (constructors, _); _ } ->
            let kinds = function { Types.cd_args = Cstr_tuple kinds; _ } -> kinds | { cd_args = Cstr_record fields; _ } -> List.map (fun field -> field.Types.ld_type) fields in
            List.concat_map kinds constructors
        | _, { type_kind = Type_record (fields, _); _ } -> List.map (fun field -> field.Types.ld_type) fields
        | Path.Pdot _, { type_kind = Type_abstract; _ } -> [ kind ]
        | _ -> if Path.same path Predef.path_lazy_t then [ kind ] else []
        | exception Not_found -> []
      in
      List.memq kind parts || List.exists (hides (path :: above)) (inner @ parts)
  | Ttuple inner -> List.exists (hides above) inner
  | Tarrow _ -> true
  | _ -> false

(* Refuse tests that give the answer what cannot be handed to another process, or need such a value of it. The names of an answer may have
   any type here; tests that need its types or modules say too little without it. *)
let refuse_crossing env calls items =
  let local = locals items in
  let outside = List.fold_left assume env (List.filter (fun name -> not (List.mem name local)) calls) in
  let crosses (given : Typedtree.expression option list) kind =
    let wanted, result = arguments kind in
    let is_bad place (_, kind) =
      hides [] kind
      && match Option.join (List.nth_opt given place) with Some argument -> not (is_closed outside (Untypeast.untype_expression argument)) | None -> true
    in
    if List.exists Fun.id (List.mapi is_bad wanted) then broken "they give the answer a value that cannot be handed to another process";
    if hides [] result then broken "they need a value that cannot be handed to another process"
  in
  let is_call (expression : Typedtree.expression) = match expression.exp_desc with Texp_ident (Pident id, _, _) -> List.mem (Ident.name id) calls | _ -> false in
  let expr (self : Tast_iterator.iterator) (expression : Typedtree.expression) =
    match expression.exp_desc with
    | Texp_apply (called, given) when is_call called ->
        crosses (List.map snd given) called.exp_type;
        List.iter (fun (_, argument) -> Option.iter (self.expr self) argument) given
    | _ ->
        if is_call expression then crosses [] expression.exp_type;
        Tast_iterator.default_iterator.expr self expression
  in
  let self = { Tast_iterator.default_iterator with expr } in
  match Typemod.type_structure (List.fold_left assume env calls) items with
  | typed, _, _, _ -> self.structure self typed
  | exception _ -> ()

let own_names before = List.concat_map defined (try parsed (before ^ "\nassert false") with _ -> [])

(* The number of cases of tests, or why they are broken. The process that says it has no answer. *)
let counted env before tests tell =
  let items = try parsed_tests tests with error -> broken ("they do not parse: " ^ said error) in
  let own = own_names before and bound = List.concat_map defined items in
  let calls = List.filter (fun name -> List.mem name own || not (in_stdlib env name)) (used items) in
  if List.for_all (fun name -> List.mem name bound) calls then broken "they use no name that an answer could define";
  (if List.for_all (fun name -> List.mem name own || List.mem name bound) calls then
     match Typemod.type_structure env (parsed (before ^ "\nassert false")) with
     | exception _ -> ()
     | _, _, _, with_head -> (
         try ignore (Typemod.type_structure with_head items)
         with error -> broken ("they do not fit the text before the answer: " ^ said error)));
  refuse_crossing env (List.filter (fun name -> not (List.mem name bound)) calls) items;
  match List.length (List.concat_map assertions items) with
  | 0 -> broken "they have no assertion"
  | count -> tell "counted" (string_of_int count)

let counted env before tests tell = try counted env before tests tell with Broken_tests reason -> tell "broken" reason

(* By case: 0 = not run, 1 = passed, 2 = failed. *)
let seen : int array ref = ref [||]
let why = ref ""

let run_case number check =
  (match check () with
  | true when not !unwritten -> if !seen.(number) = 0 then !seen.(number) <- 1
  | _ -> !seen.(number) <- 2
  | exception error ->
      !seen.(number) <- 2;
      if !why = "" then
        why := (match error with No_value -> "needs or gives a value that cannot be written down" | _ -> line ("raised " ^ Printexc.exn_slot_name error)));
  unwritten := false

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
   answer as code, and what these last stand for: paths now, paths in the answer. *)
let known env items own =
  let know items =
    let typed, signature, env = typed items in
    Toploop.toplevel_env := env;
    (typed, signature)
  in
  let answer, signature = know [ answer_module items ] in
  let code = byte_code answer in
  let name, fields = match signature with [ Types.Sig_module (id, _, { md_type = Mty_signature fields; _ }, _, _) ] -> (Translmod.toplevel_name id, fields) | _ -> raise Not_run in
  Toploop.setvalue name (empty_module fields);
  List.iter (fun name -> ignore (know [ opened name ])) (scopes env items);
  let path name = fst (Env.find_value_by_name name !Toploop.toplevel_env) in
  let alias name =
    let in_answer = path (Ldot (Lident answer_name, name)) in
    ignore (know (parsed (Printf.sprintf "let ( %s ) = %s.( %s )" name answer_name name)));
    Toploop.setvalue name (Obj.repr (fun _ -> raise Not_run));
    (path (Lident name), in_answer)
  in
  ((name, code), List.map alias own)

(* The item with each assertion as a case; [cases] are numbers by start. *)
let with_cases cases item =
  let open Ast_helper in
  let default = Ast_mapper.default_mapper in
  let expr (self : Ast_mapper.mapper) expression =
    match expression.pexp_desc with
    | Pexp_assert inner ->
        let thunk = Exp.fun_ Nolabel None (Pat.any ()) (self.expr self inner) in
        let number = Exp.constant (Const.int (List.assoc (start expression) cases)) in
        Exp.apply (Exp.ident (none case_name)) [ (Nolabel, number); (Nolabel, thunk) ]
    | _ -> default.expr self expression
  in
  let mapper = { default with expr } in
  mapper.structure_item mapper item

(* Typed items with each value of the answer replaced by its stand-in. *)
let with_stand_ins aliases items =
  let stand_in_path, stand_in_type = Env.find_value_by_name (Longident.Lident stand_in_name) !Toploop.toplevel_env in
  let of_answer path =
    match (List.assoc_opt path aliases, path) with
    | Some in_answer, _ -> Some in_answer
    | None, Path.Pdot _ when Ident.name (Path.head path) = answer_name -> Some path
    | _ -> None
  in
  let stand_in_for (expression : Typedtree.expression) path sources =
    let words =
      lazy
        (let _, result = arguments expression.exp_type in
         try plain_words result with Not_plain -> Format.asprintf "%a" Printtyp.type_scheme result)
    in
    sites := Array.append !sites [| { path; kind = expression.exp_type; words; sources } |];
    let called = { expression with exp_desc = Texp_ident (stand_in_path, none stand_in_name, stand_in_type) } in
    let number = { expression with exp_desc = Texp_constant (Const_int (Array.length !sites - 1)); exp_type = Predef.type_int } in
    { expression with exp_desc = Texp_apply (called, [ (Nolabel, Some number) ]) }
  in
  let default = Tast_mapper.default in
  let expr (self : Tast_mapper.mapper) (expression : Typedtree.expression) =
    match expression.exp_desc with
    | Texp_apply (({ exp_desc = Texp_ident (path, _, _); _ } as called), given) when of_answer path <> None ->
        let replaced = List.map (fun (label, argument) -> (label, Option.map (self.expr self) argument)) given in
        { expression with exp_desc = Texp_apply (stand_in_for called (Option.get (of_answer path)) (List.map snd given), replaced) }
    | Texp_ident (path, _, _) -> Option.fold ~none:expression ~some:(fun path -> stand_in_for expression path []) (of_answer path)
    | _ -> default.expr self expression
  in
  let mapper = { default with expr } in
  mapper.structure mapper items

let run_tests aliases tests =
  let cases = List.mapi (fun number start -> (start, number)) (List.sort compare (List.concat_map assertions tests)) in
  List.iter
    (fun item ->
      try
        let items, _, env = typed [ with_cases cases item ] in
        run_typed (with_stand_ins aliases items) env
      with error ->
        unwritten := false;
        List.iter (fun start -> !seen.(List.assoc start cases) <- 2) (assertions item);
        if !why = "" && Location.error_of_exn error <> None then why := said error)
    tests

let judged env before answer tests tell =
  match parsed (before ^ answer) with
  | exception error -> tell "syntax" (said error)
  | items when is_empty items -> tell "empty" ""
  | items when tests = "" -> check env items tell
  | items -> (
      ask := (fun asked -> write_frame (descriptor 4) (Marshal.to_string asked []); read_frame (descriptor 5));
      let tests = parsed_tests tests in
      let names = used tests in
      seen := Array.make (List.length (List.concat_map assertions tests)) 0;
      let result reason =
        tell "cases" (String.concat "" (List.map (function 1 -> "+" | _ -> "-") (Array.to_list !seen)));
        tell "first" reason
      in
      match
        refuse_unsafe answer;
        known env items (List.filter (fun name -> List.mem name names) (own_names before))
      with
      | exception Forbidden name -> tell "forbidden" name
      | exception error -> result (said error)
      | code, aliases -> (
          match
            write_frame (descriptor 4) (Marshal.to_string code []);
            read_frame (descriptor 5)
          with
          | exception _ -> tell "ended" ""
          | "raised" -> tell "raised" ""
          | _ ->
              run_tests aliases tests;
              if !ended then tell "ended" "" else result !why))

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
      { judged = judged env; counted = counted env; running = running env })
