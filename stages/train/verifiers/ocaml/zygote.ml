(* The inside of the OCaml verifier: loads the type checker and the standard library once, locks itself up, then forks a process a job.

   It talks through stdin and stdout in frames: four bytes of length (little endian), then the content. The set-up is three frames:
   "<uid or -1>", the zygote's filter, the candidate's filter. A job is five frames: "<id> <CPU seconds> <bytes of memory>", a nonce, the
   text that comes before the answer (trusted), the answer, and the tests ("" = type check only). The answer to a job is two
   frames: "<id> <exited|signalled> <number> <CPU seconds>" and what the candidate's process wrote, untrusted:
   "." behind its filter, then the nonce, then lines "<word> <rest>". *)

external give_up : unit -> int = "octavo_give_up"
external limits : int -> int -> int = "octavo_limits"
external landlock : unit -> int = "octavo_landlock"
external filter : string -> int = "octavo_filter"

open Parsetree

let nowhere = Format.make_formatter (fun _ _ _ -> ()) (fun () -> ())

(* Not for answers: they break the type system, reach the compiler, or run C over tables that an answer could forge. *)
let hidden =
  [ "obj"; "marshal"; "callback"; "ephemeron"; "lexing"; "parsing"; "genlex"; "camlinternalOO"; "camlinternalMod"; "camlinternalFormat" ]

(* ---- frames ---- *)

let rec read_into bytes start left =
  if left > 0 then
    match Unix.read Unix.stdin bytes start left with
    | 0 -> Unix._exit 0
    | count -> read_into bytes (start + count) (left - count)

let read_frame () =
  let size = Bytes.create 4 in
  read_into size 0 4;
  let content = Bytes.create (Int32.to_int (Bytes.get_int32_le size 0)) in
  read_into content 0 (Bytes.length content);
  Bytes.unsafe_to_string content

let rec write_all fd text start left =
  if left > 0 then
    let count = Unix.write_substring fd text start left in
    write_all fd text (start + count) (left - count)

let write_frame text =
  let size = Bytes.create 4 in
  Bytes.set_int32_le size 0 (Int32.of_int (String.length text));
  let framed = Bytes.unsafe_to_string size ^ text in
  write_all Unix.stdout framed 0 (String.length framed)

(* ---- words about errors ---- *)

(* One printable line of at most 200 bytes: messages quote the answer. *)
let line text =
  let text = if String.length text > 200 then String.sub text 0 200 else text in
  String.map (fun letter -> if letter < ' ' || letter > '~' then ' ' else letter) text

let place (location : Location.t) =
  let start = location.loc_start in
  Printf.sprintf "line %d, column %d: " start.pos_lnum (start.pos_cnum - start.pos_bol + 1)

let said = function
  | Out_of_memory -> "out of memory"
  | Stack_overflow -> "nested too deeply"
  | error -> (
      match Location.error_of_exn error with
      | Some (`Ok report) ->
          let main = report.Location.main in
          line (place main.loc ^ Format.asprintf "%t" main.txt)
      | Some `Already_displayed | None -> line (Printexc.exn_slot_name error)
      | exception _ -> "error")

(* ---- reading programs ---- *)

(* [start] is where the text lies in the whole program, so that messages count the lines of the answer. *)
let parsed text =
  let buffer = Lexing.from_string text in
  Location.init buffer "answer";
  Location.input_name := "answer";
  Parse.implementation buffer

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
let run env nonce items cases own =
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
      | items when List.for_all (fun item -> match item.pstr_desc with Pstr_attribute _ -> true | _ -> false) items -> tell "empty" ""
      | items -> (
          tell "items" (string_of_int (List.length items));
          match prepared with
          | None -> (
              match compiled env items with
              | () -> tell "compiles" ""
              | exception whole ->
                  let bad, first = errors env items in
                  tell "errors" (string_of_int bad);
                  tell "first" (if bad = 0 then said whole else first))
          | Some (cases, count, own) -> (
              seen := Array.make count 0;
              let counted reason =
                tell "cases" (String.concat "" (List.map (function 1 -> "+" | _ -> "-") (Array.to_list !seen)));
                tell "first" reason
              in
              match
                refuse_unsafe answer;
                run env nonce items cases own
              with
              | () -> counted !why
              | exception Forbidden name -> tell "forbidden" name
              | exception Raised -> tell "raised" ""
              | exception error -> counted (said error))))

let candidate env nowhere_fd writer candidate_filter cpu memory nonce before answer tests =
  List.iter (Unix.dup2 nowhere_fd) [ Unix.stdin; Unix.stdout; Unix.stderr ];
  Unix.close nowhere_fd;
  if limits (int_of_float (ceil (cpu +. 0.1))) memory <> 0 then Unix._exit 97;
  ignore (Unix.setitimer Unix.ITIMER_PROF { it_value = cpu; it_interval = 0. });
  if filter candidate_filter <> 0 then Unix._exit 97;
  write_all writer "." 0 1;
  let lines = Buffer.create 256 in
  judged env nonce before answer tests (fun word rest -> Buffer.add_string lines (word ^ " " ^ rest ^ "\n"));
  let text = nonce ^ Buffer.contents lines ^ "end \n" in
  write_all writer text 0 (String.length text);
  Unix._exit 0

let rec drained fd buffer content =
  match Unix.read fd buffer 0 (Bytes.length buffer) with
  | 0 -> Buffer.contents content
  | count ->
      Buffer.add_subbytes content buffer 0 count;
      drained fd buffer content

let serve env nowhere_fd candidate_filter =
  let buffer = Bytes.create 65536 in
  while true do
    let id, cpu, memory = Scanf.sscanf (read_frame ()) "%d %f %d" (fun id cpu memory -> (id, cpu, memory)) in
    let nonce = read_frame () in
    let before = read_frame () in
    let answer = read_frame () in
    let tests = read_frame () in
    let reader, writer = Unix.pipe ~cloexec:false () in
    let used = Unix.times () in
    match Unix.fork () with
    | 0 ->
        Unix.close reader;
        (try candidate env nowhere_fd writer candidate_filter cpu memory nonce before answer tests with _ -> ());
        Unix._exit 1
    | child ->
        Unix.close writer;
        let written = drained reader buffer (Buffer.create 256) in
        Unix.close reader;
        let _, status = Unix.waitpid [] child in
        let after = Unix.times () in
        let seconds = after.tms_cutime +. after.tms_cstime -. used.tms_cutime -. used.tms_cstime in
        (* OCaml has numbers of its own for signals; the host only asks for these three. *)
        let word, number =
          match status with
          | WEXITED code -> ("exited", code)
          | WSIGNALED signal | WSTOPPED signal ->
              ("signalled", if signal = Sys.sigprof then 27 else if signal = Sys.sigxcpu then 24 else if signal = Sys.sigkill then 9 else 11)
        in
        write_frame (Printf.sprintf "%d %s %d %.4f" id word number seconds);
        write_frame written
  done

(* Load every module of the standard library that answers may use; afterwards no file is ever looked for again. *)
let load_library () =
  let allowed file =
    let name = Filename.remove_extension file in
    String.length name > 8 && String.sub name 0 8 = "stdlib__" && Filename.extension file = ".cmi"
    && not (List.mem (String.uncapitalize_ascii (String.sub name 8 (String.length name - 8))) hidden)
  in
  let modules = List.filter allowed (Array.to_list (Sys.readdir Config.standard_library)) in
  List.iter
    (fun file ->
      let name = String.sub file 8 (String.length file - 12) in
      try source (Printf.sprintf "module _ = struct include Stdlib.%s end" (String.capitalize_ascii name)) with _ -> ())
    (List.sort compare modules);
  source
    "let _ = Printf.sprintf \"%d %s\" 1 \"\", Format.asprintf \"%a\" Format.pp_print_int 1, Scanf.sscanf \"1\" \"%d\" Fun.id, Lazy.force (lazy 1), (object method m = 1 end)#m\n\
     let _ = (fun (lazy x) -> x) (lazy 1)  class c = object inherit (object method m = 1 end) as super method n = super#m val mutable x = 1 end\n\
     let _ = (new c)#n, Oo.copy (new c), (fun x -> x#n) (new c)  module rec R : sig val f : unit -> unit end = struct let f () = () end\n\
     module _ = Map.Make (Int) module _ = Set.Make (String) module _ = Hashtbl.Make (struct type t = int let equal = ( = ) let hash x = x end)";
  Load_path.reset ()

let () =
  let uid = int_of_string (read_frame ()) in
  let zygote_filter = read_frame () in
  let candidate_filter = read_frame () in
  Clflags.noinit := true;
  Clflags.noprompt := true;
  Clflags.dont_write_files := true;
  Clflags.debug := false;
  Clflags.color := Some Misc.Color.Never;
  Clflags.error_style := Some Misc.Error_style.Short;
  Location.formatter_for_warnings := nowhere;
  ignore (Warnings.parse_options false "-a");
  Compmisc.init_path ();
  Toploop.initialize_toplevel_env ();
  let env = !Toploop.toplevel_env in
  load_library ();
  source (Printf.sprintf "module %s = Stdlib\nlet %s : int -> (unit -> bool) -> unit = fun _ _ -> ()" library_name case_name);
  Toploop.setvalue case_name (Obj.repr run_case);
  let nowhere_fd = Unix.openfile "/dev/null" [ Unix.O_RDWR ] 0 in
  Unix.chdir "/";
  if uid >= 0 then begin
    Unix.setgroups [||];
    Unix.setgid uid;
    Unix.setuid uid
  end;
  if give_up () <> 0 then failwith "limits refused";
  let locked = landlock () in
  if locked <> 0 then failwith (Printf.sprintf "landlock refused: %d" locked);
  Gc.compact ();
  (* Candidates write on a copy of every page that they touch: most are done before they collect garbage at all, and marking what they
     never use would touch it. Answers run with the usual overhead again. *)
  Gc.set { (Gc.get ()) with space_overhead = 1_000_000; minor_heap_size = 1 lsl 20 };
  if filter zygote_filter <> 0 then failwith "system call filter refused";
  write_frame (Printf.sprintf "ready %d %s" (Unix.getuid ()) Sys.ocaml_version);
  serve env nowhere_fd candidate_filter
