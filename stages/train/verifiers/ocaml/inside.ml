(* What both programs of the OCaml verifier share: each loads the type checker and the standard library once, locks itself up, then forks
   processes for each answer, as box.py says. `checks` type checks and is compiled to machine code; `runs` also runs answers, for which
   it must be byte code.

   The answer of an order is "<bytes of the text before it>\n", that text, the answer; the rest is the tests. With tests, two processes
   are forked: one has the answer and never the tests; the other has the tests, types the answer and never runs it, and judges. An order
   without an answer counts the cases of its rest, "<bytes>\n", the text before an answer, the tests. Each process is behind the filter
   before it reads a text. The judge writes the output: lines "<word> <rest>", then "end ". An order's line of standard output is about the
   process that ran the answer; in place of a reason it may say `judge-<status>`, where the judge did not end well. *)

external give_up : int -> int = "octavo_give_up"
external pread : int -> int -> int -> string = "octavo_pread"
external confine : Unix.file_descr -> int list -> int -> int -> int = "octavo_confine"
external landlock : unit -> int = "octavo_landlock"
external filter : string -> int = "octavo_filter"

let number : Unix.file_descr -> int = Obj.magic
let descriptor : int -> Unix.file_descr = Obj.magic
let nowhere = Format.make_formatter (fun _ _ _ -> ()) (fun () -> ())

let rec write_all fd text start left =
  if left > 0 then
    let count = Unix.write_substring fd text start left in
    write_all fd text (start + count) (left - count)

(* A line of standard input, with nothing read ahead: what a buffer held, a forked process could read. *)
let input_order () =
  let line = Buffer.create 80 and letter = Bytes.create 1 in
  while Unix.read Unix.stdin letter 0 1 = 1 && Bytes.get letter 0 <> '\n' do
    Buffer.add_bytes line letter
  done;
  if Buffer.length line = 0 then raise End_of_file;
  Buffer.contents line

(* ---- frames between the two processes of an answer: four bytes of length, then the content ---- *)

let frame_bytes = 1 lsl 24

let read_frame fd =
  let rec fill bytes start left =
    if left > 0 then
      match Unix.read fd bytes start left with 0 -> raise End_of_file | count -> fill bytes (start + count) (left - count)
  in
  let size = Bytes.create 4 in
  fill size 0 4;
  let length = Int32.to_int (Bytes.get_int32_le size 0) in
  if length < 0 || length > frame_bytes then raise End_of_file;
  let content = Bytes.create length in
  fill content 0 length;
  Bytes.unsafe_to_string content

let write_frame fd text =
  let size = Bytes.create 4 in
  Bytes.set_int32_le size 0 (Int32.of_int (String.length text));
  let framed = Bytes.unsafe_to_string size ^ text in
  write_all fd framed 0 (String.length framed)

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

(* ---- an answer ---- *)

type order = { contents : int; offset : int; answer : int; rest : int; output : int; cpu : float; memory : int }
type tell = string -> string -> unit

type work = {
  judged : string -> string -> string -> tell -> unit; (* text before, answer, tests *)
  counted : string -> string -> tell -> unit; (* text before, tests *)
  running : string * string -> Unix.file_descr -> Unix.file_descr -> unit; (* texts, requests, replies *)
}

let limits_seconds order = int_of_float (ceil (order.cpu +. 0.1))

(* Fork a process that keeps the descriptors, as 3, 4, 5..., and works behind the filter. What goes wrong before that is our fault: the
   process ends as only the outside could end it later on. [read] gives it its texts. *)
let forked order null filter_program kept read work =
  match Unix.fork () with
  | 0 ->
      Sys.set_signal Sys.sigpipe Sys.Signal_ignore; (* the other process may have ended: chance does not decide how this one ends *)
      (match
         let texts = read () in
         if confine null kept (limits_seconds order) order.memory <> 0 then failwith "limits";
         ignore (Unix.setitimer Unix.ITIMER_PROF { it_value = order.cpu; it_interval = 0. });
         if filter filter_program <> 0 then failwith "filter";
         texts
       with
      | texts -> ( try work texts with _ -> Unix._exit 1)
      | exception _ -> Unix.kill (Unix.getpid ()) Sys.sigkill);
      Unix._exit 0
  | child -> child

(* (status as the host reads it, CPU seconds) *)
let waited child =
  let used = Unix.times () in
  let _, status = Unix.waitpid [] child in
  let after = Unix.times () in
  let signals = [ (Sys.sigprof, 27); (Sys.sigxcpu, 24); (Sys.sigkill, 9) ] in
  let code =
    match status with
    | WEXITED code -> code lsl 8
    | WSIGNALED signal | WSTOPPED signal -> ( try List.assoc signal signals with Not_found -> 11)
  in
  (code, after.tms_cutime +. after.tms_cstime -. used.tms_cutime -. used.tms_cstime)

(* The text before the answer, and the answer. *)
let texts_of content =
  let line = String.index content '\n' in
  let size = int_of_string (String.sub content 0 line) in
  (String.sub content (line + 1) size, String.sub content (line + 1 + size) (String.length content - line - 1 - size))

(* Fork a process with the output and [others] that reads texts and tells of them. *)
let judge order null filter_program others read work =
  forked order null filter_program (order.output :: others) read (fun texts ->
      let lines = Buffer.create 256 in
      work texts (fun word rest -> Buffer.add_string lines (word ^ " " ^ rest ^ "\n"));
      let text = Buffer.contents lines ^ "end \n" in
      write_all (descriptor 3) text 0 (String.length text))

(* One line about an order. *)
let served work null filter_program order =
  let answer () = texts_of (pread order.contents order.answer order.offset) in
  let rest () = if order.rest = 0 then "" else pread order.contents order.rest (order.offset + order.answer) in
  let judge_answer others =
    judge order null filter_program others (fun () -> (answer (), rest ())) (fun ((before, answer), tests) -> work.judged before answer tests)
  in
  if order.answer = 0 || order.rest = 0 then begin
    let count () = judge order null filter_program [] (fun () -> texts_of (rest ())) (fun (before, tests) -> work.counted before tests) in
    let status, seconds = waited (if order.answer = 0 then count () else judge_answer []) in
    Printf.sprintf "%d %.4f -\n" status seconds
  end
  else begin
    let requests, request = Unix.pipe ~cloexec:false () in
    let replies, reply = Unix.pipe ~cloexec:false () in
    let runner =
      forked order null filter_program [ number requests; number reply ] answer (fun texts ->
          work.running texts (descriptor 3) (descriptor 4))
    in
    let judge = judge_answer [ number request; number replies ] in
    List.iter Unix.close [ requests; request; replies; reply ];
    let judge_status, _ = waited judge in
    let status, seconds = waited runner in
    Printf.sprintf "%d %.4f %s\n" status seconds (if judge_status = 0 then "-" else Printf.sprintf "judge-%d" judge_status)
  end

(* Load, lock up, serve. [prepare] loads what answers need, and gives the work. *)
let run prepare =
  let uid, contents, filter_size, output_bytes = Scanf.sscanf (input_order ()) "%d %d %d %d" (fun a b c d -> (a, b, c, d)) in
  let filter_program = pread contents filter_size 0 in
  Clflags.noinit := true;
  Clflags.noprompt := true;
  Clflags.dont_write_files := true;
  Clflags.debug := false;
  Clflags.color := Some Misc.Color.Never;
  Clflags.error_style := Some Misc.Error_style.Short;
  Location.formatter_for_warnings := nowhere;
  ignore (Warnings.parse_options false "-a");
  Compmisc.init_path ();
  let work = prepare () in
  Load_path.reset ();
  let null = Unix.openfile "/dev/null" [ Unix.O_RDWR ] 0 in
  Unix.chdir "/";
  if uid >= 0 then begin
    Unix.setgroups [||];
    Unix.setgid uid;
    Unix.setuid uid
  end;
  if give_up output_bytes <> 0 then failwith "limits refused";
  let locked = landlock () in
  if locked <> 0 then failwith (Printf.sprintf "landlock refused: %d" locked);
  Gc.compact ();
  (* Forked processes write on a copy of every page that they touch: most are done before they collect garbage at all, and marking what
     they never use would touch it. OCaml asks for memory by this percentage too: ten times what a large value needs is bearable. Answers
     run with the usual overhead again. *)
  Gc.set { (Gc.get ()) with space_overhead = 1_000; minor_heap_size = 1 lsl 20 };
  print_string "ready\n";
  flush stdout;
  try
    while true do
      let order =
        Scanf.sscanf (input_order ()) "%d %d %d %d %d %d" (fun offset answer rest output cpu memory ->
            { contents; offset; answer; rest; output; memory; cpu = float cpu /. 1000. })
      in
      print_string (served work null filter_program order);
      flush stdout
    done
  with End_of_file -> ()
