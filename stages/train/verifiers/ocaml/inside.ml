(* What both programs of the OCaml verifier share: each loads the type checker and the standard library once, locks itself up, then forks
   a process a job. `checks` type checks and is compiled to machine code; `runs` also runs answers, for which it must be byte code.

   It talks through stdin and stdout in frames: four bytes of length (little endian), then the content. The set-up is three frames:
   "<uid or -1>", the zygote's filter, the candidate's filter. A job is five frames: "<id> <CPU seconds> <bytes of memory>", a nonce, the
   text that comes before the answer (trusted), the answer, and the tests ("" = type check only). The answer to a job is two
   frames: "<id> <exited|signalled> <number> <CPU seconds>" and what the candidate's process wrote, untrusted:
   "." behind its filter, then the nonce, then lines "<word> <rest>". *)

external give_up : unit -> int = "octavo_give_up"
external limits : int -> int -> int = "octavo_limits"
external landlock : unit -> int = "octavo_landlock"
external filter : string -> int = "octavo_filter"

let nowhere = Format.make_formatter (fun _ _ _ -> ()) (fun () -> ())

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

(* ---- a job ---- *)

let candidate judged nowhere_fd writer candidate_filter cpu memory nonce before answer tests =
  List.iter (Unix.dup2 nowhere_fd) [ Unix.stdin; Unix.stdout; Unix.stderr ];
  Unix.close nowhere_fd;
  if limits (int_of_float (ceil (cpu +. 0.1))) memory <> 0 then Unix._exit 97;
  ignore (Unix.setitimer Unix.ITIMER_PROF { it_value = cpu; it_interval = 0. });
  if filter candidate_filter <> 0 then Unix._exit 97;
  write_all writer "." 0 1;
  let lines = Buffer.create 256 in
  judged nonce before answer tests (fun word rest -> Buffer.add_string lines (word ^ " " ^ rest ^ "\n"));
  let text = nonce ^ Buffer.contents lines ^ "end \n" in
  write_all writer text 0 (String.length text);
  Unix._exit 0

let rec drained fd buffer content =
  match Unix.read fd buffer 0 (Bytes.length buffer) with
  | 0 -> Buffer.contents content
  | count ->
      Buffer.add_subbytes content buffer 0 count;
      drained fd buffer content

let serve judged nowhere_fd candidate_filter =
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
        (try candidate judged nowhere_fd writer candidate_filter cpu memory nonce before answer tests with _ -> ());
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

(* Load, lock up, serve. [prepare] loads what jobs need, and gives what judges one: nonce, before, answer, tests, where to tell. *)
let run prepare =
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
  let judged = prepare () in
  Load_path.reset ();
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
  serve judged nowhere_fd candidate_filter
