(* Parsing and type checking of answers, and what every process must have loaded for it. *)

open Parsetree
open Inside

(* Not for answers: they break the type system, reach the compiler, or run C over tables that an answer could forge. *)
let hidden =
  [ "obj"; "marshal"; "callback"; "ephemeron"; "lexing"; "parsing"; "genlex"; "camlinternalOO"; "camlinternalMod"; "camlinternalFormat" ]

let parsed text =
  let buffer = Lexing.from_string text in
  Location.init buffer "answer";
  Location.input_name := "answer";
  Parse.implementation buffer

(* ---- types ---- *)

let rec pattern_names pattern =
  match pattern.ppat_desc with
  | Ppat_var { txt; _ } -> [ txt ]
  | Ppat_alias (inner, { txt; _ }) -> txt :: pattern_names inner
  | Ppat_constraint (inner, _) | Ppat_lazy inner | Ppat_open (_, inner) -> pattern_names inner
  | Ppat_tuple inner | Ppat_array inner -> List.concat_map pattern_names inner
  | Ppat_record (fields, _) -> List.concat_map (fun (_, inner) -> pattern_names inner) fields
  | Ppat_construct (_, Some (_, inner)) | Ppat_variant (_, Some inner) -> pattern_names inner
  | Ppat_or (left, _) -> pattern_names left
  | _ -> []

let defined item = match item.pstr_desc with Pstr_value (_, bindings) -> List.concat_map (fun one -> pattern_names one.pvb_pat) bindings | _ -> []

(* A name of any type at all, in place of a definition that has none: one error is not counted again where the name is used. *)
let assume env name =
  let value : Types.value_description =
    { val_type = Btype.newgenvar (); val_kind = Val_reg; val_loc = Location.none; val_attributes = []; val_uid = Types.Uid.internal_not_actually_unique }
  in
  Env.add_value (Ident.create_local name) value env

(* Errors of each item by itself: (number of items with an error, words about the first). *)
let errors env items =
  let env = ref env and bad = ref 0 and first = ref "" in
  List.iter
    (fun item ->
      match
        Typecore.reset_delayed_checks ();
        let _, _, _, after = Typemod.type_structure !env [ item ] in
        Typecore.force_delayed_checks ();
        after
      with
      | after -> env := after
      | exception error ->
          incr bad;
          if !bad = 1 then first := said error;
          env := List.fold_left assume !env (defined item))
    items;
  (!bad, !first)

(* As ocamlc does, up to byte code: also finds what single items do not show, such as types left open. *)
let compiled env items =
  let typed = Typemod.type_implementation "answer.ml" "answer" "Answer" env items in
  let program = Translmod.transl_implementation "Answer" (typed.structure, typed.coercion) in
  ignore (Bytegen.compile_implementation "Answer" (Simplif.simplify_lambda program.Lambda.code))

(* The modules of the standard library that answers may use, each as a program that names all of it. *)
let library () =
  let allowed file =
    let name = Filename.remove_extension file in
    String.length name > 8 && String.sub name 0 8 = "stdlib__" && Filename.extension file = ".cmi"
    && not (List.mem (String.uncapitalize_ascii (String.sub name 8 (String.length name - 8))) hidden)
  in
  let modules = List.filter allowed (Array.to_list (Sys.readdir Config.standard_library)) in
  List.map
    (fun file -> Printf.sprintf "module _ = struct include Stdlib.%s end" (String.capitalize_ascii (String.sub file 8 (String.length file - 12))))
    (List.sort compare modules)

(* Uses of what the compiler itself looks for in the library. *)
let compilers_own =
  "let _ = Printf.sprintf \"%d %s\" 1 \"\", Format.asprintf \"%a\" Format.pp_print_int 1, Scanf.sscanf \"1\" \"%d\" Fun.id, Lazy.force (lazy 1), (object method m = 1 end)#m\n\
     let _ = (fun (lazy x) -> x) (lazy 1)  class c = object inherit (object method m = 1 end) as super method n = super#m val mutable x = 1 end\n\
     let _ = (new c)#n, Oo.copy (new c), (fun x -> x#n) (new c)  module rec R : sig val f : unit -> unit end = struct let f () = () end\n\
     module _ = Map.Make (Int) module _ = Set.Make (String) module _ = Hashtbl.Make (struct type t = int let equal = ( = ) let hash x = x end)"

let is_empty items = List.for_all (fun item -> match item.pstr_desc with Pstr_attribute _ -> true | _ -> false) items

(* What type checking says of an answer. *)
let check env items tell =
  match compiled env items with
  | () -> tell "compiles" ""
  | exception whole ->
      let bad, first = errors env items in
      tell "errors" (string_of_int bad);
      tell "first" (if bad = 0 then said whole else first)
