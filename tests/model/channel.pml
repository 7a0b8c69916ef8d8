/* The channel of src/share as it is implemented, for Spin: NP producers, one consumer, each producer
   with NS slots and N items to send; one process, any, is killed at any step, or none (K).
   tests/model/check runs it, right and with each of the mistakes below, which must be found.

   Modelled: lanes of two rings, holders written before a slot leaves a ring, one sleeping flag per
   END, the futex wait on {own flag, liveness words of the other side}, the look at rings and states
   after the flag is up, closing, the kernel's mark and wake at a death, the gate, what survivors and
   successors take back.  Not modelled: that a hint at a death comes before the proof of it, several
   consumers and the move of items between them, time.  A death before an end has told that it has
   come is left out: who sleeps then does not know of it yet, and looks again after 150 ms.

   -DREATTACH     who was killed has a successor
   -DTWICE        two are killed, or the successor of the one that was
   Mistakes:
   -DON_TAIL      the consumer waits on the tails instead of its flag
   -DNO_RECHECK   a dead producer is told of without looking at its ring again
   -DNO_LIVE      no liveness words
   -DRELACQ       flag and tail with release and acquire: each end has a store buffer of one entry
   -DLATE_HOLDER  the holder is written after the slot has left its ring
   -DNO_QUIET     no second look after the flag is up
   -DLATE_LOOK    a producer that attaches looks at who is gone after it has looked at the rings */
#ifndef NP
#define NP 1
#endif
#ifndef NS
#define NS 2
#endif
#ifndef N
#define N 3
#endif
#if NP > 1 /* fewer steps, where they are no other end's business, keep two producers small */
#define COARSE atomic
#define HOME 1 /* nobody waits for slots to come back */
#define LAST 1 /* of two that are alike one is killed, or none */
#else
#define COARSE
#define HOME (spare == (1 << NS) - 1)
#define LAST (NP + 1)
#endif
#define R 4 /* entries of a ring, at least NS */
#define AT(p, i) ((p) * R + ((i) & (R - 1)))
#define SLOT(p, s) ((p) * NS + (s))

#define VACANT 0
#define ATTACHED 1
#define CLOSED 2
#define DEAD 3
#define AGAIN 4 /* the successor: another epoch */
#define AND_AGAIN 5
#define NEXT(x) ((x) == ATTACHED -> AGAIN : AND_AGAIN)
#define IS_HERE(x) ((x) == ATTACHED || (x) >= AGAIN)
#define FREE_OR_FILLED 0
#define READ 1

byte holder[NP * NS];
byte rix[NP * R], fix[NP * R];
byte rtail[NP], rhead[NP], ftail[NP], fhead[NP];
byte pst[NP], cst;
bit csleep, cblk, psleep[NP], pblk[NP];
bit plw[NP], clw; /* somebody waits for the liveness word */
bit gate, pin[NP], cin; /* pin, cin: has come, and has told so */
byte plive[NP], clive; /* liveness words: whose; 0: nobody's */
byte kill, inside; /* 1 + p: a producer, NP + 1: the consumer */
bit there[NP + 2];  /* can be killed */
byte published[NP], got[NP], lost[NP];

/* Gate::enter, ~Gate; who dies inside is found dead, so the kernel opens it here */
#define ENTER(me) atomic { gate == 0 -> gate = 1; inside = me }
#define LEAVE atomic { gate = 0; inside = 0 }

/* ring.h, wake_sleeper: exchange, and the wake that follows only if the flag was up */
inline wake_consumer() {
  d_step { w = csleep; csleep = 0 };
  if :: w == 1 -> cblk = 0 :: else fi; w = 0
}
inline wake_producer(q) {
  d_step { w = psleep[q]; psleep[q] = 0 };
  if :: w == 1 -> pblk[q] = 0 :: else fi; w = 0
}

/* PushEnd::push and wake_sleeper, as Producer::publish and Consumer::release call them.  Tail and
   flag: in this order, or, with a store buffer, the look at the flag first */
inline push_ready(s) {
  COARSE { rix[AT(p, rtail[p])] = s };
#ifdef RELACQ
  if
  :: d_step { rtail[p]++; published[p]++ }; wake_consumer()
  :: csleep == 0 -> d_step { rtail[p]++; published[p]++ }
  fi
#else
  d_step { rtail[p]++; published[p]++ };
  wake_consumer()
#endif
}
inline push_free(q, s) {
  COARSE { fix[AT(q, ftail[q])] = s;
  ftail[q]++ };
  wake_producer(q)
}

/* recovery.cc, mark: rings whose one end stands still; head first, then tail, then (elsewhere)
   holders */
inline mark(q) {
  COARSE { m = 0; i = rhead[q]; e = rtail[q];
  do :: i != e -> m = m | (1 << rix[AT(q, i)]); i++ :: else -> break od;
  i = fhead[q]; e = ftail[q];
  do :: i != e -> m = m | (1 << fix[AT(q, i)]); i++ :: else -> break od; i = 0; e = 0 }
}

proctype P(byte p; byte as) {
  byte s, i, m, e, spare, told, seen, live; bit w;
  {
    /* Channel::attach_producer, take_inventory */
    COARSE { ENTER(1 + p);
#ifndef LATE_LOOK
    seen = cst;
#endif
    mark(p);
#ifdef LATE_LOOK
    seen = cst;
#endif
    COARSE { s = 0;
    do
    :: s < NS ->
       if
       :: (m & (1 << s)) == 0 && holder[SLOT(p, s)] == FREE_OR_FILLED -> spare = spare | (1 << s)
       :: (m & (1 << s)) == 0 && holder[SLOT(p, s)] == READ && seen == DEAD ->
          lost[p]++; holder[SLOT(p, s)] = FREE_OR_FILLED; spare = spare | (1 << s)
       :: else
       fi; s++
    :: else -> s = 0; m = 0; break
    od };
    plive[p] = as; pst[p] = as;
    LEAVE;
    wake_consumer();
    d_step { pin[p] = 1; there[1 + p] = 1 } };
    do
    :: /* Producer::look, take_over */
       seen = cst;
       if
       :: seen == DEAD && told == 0 ->
          ENTER(1 + p); /* what it held is ours again */
          if
          :: cst == DEAD ->
             mark(p); s = 0;
             do
             :: s < NS ->
                if :: (m & (1 << s)) == 0 && holder[SLOT(p, s)] == READ ->
                      holder[SLOT(p, s)] = FREE_OR_FILLED; spare = spare | (1 << s); lost[p]++
                :: else fi; s++
             :: else -> s = 0; m = 0; break
             od; told = 1
          :: else fi;
          LEAVE
       :: else fi;
       /* Producer::drain */
       do
       :: fhead[p] != ftail[p] ->
          COARSE { s = fix[AT(p, fhead[p])];
          holder[SLOT(p, s)] = FREE_OR_FILLED;
          fhead[p]++;
          assert((spare & (1 << s)) == 0); spare = spare | (1 << s); s = 0 }
       :: else -> break
       od;
#ifndef REATTACH
       if :: told == 1 -> break :: else fi; /* nobody will ever read */
#endif
       if
       :: published[p] < N && spare != 0 -> /* Producer::publish */
          COARSE { s = 0; do :: (spare & (1 << s)) == 0 -> s++ :: else -> break od;
          spare = spare & ~(1 << s) };
          push_ready(s); s = 0
       :: published[p] == N && HOME -> break /* all are home */
       :: else -> /* Endpoint::watch (announce_waiter), raise_flag, Producer::quiet, doze */
          d_step { live = clive; if :: live != 0 -> clw = 1 :: else fi };
          psleep[p] = 1;
          if
          :: fhead[p] != ftail[p] || cst != seen -> psleep[p] = 0
          :: else ->
             d_step { if
             :: psleep[p] == 1 && (live == 0 || clive == live) -> pblk[p] = 1
             :: else fi };
             pblk[p] == 0;
             d_step { psleep[p] = 0; live = 0 }
          fi
       fi
    od;
    /* Nothing was lost of sight: in our hands or on its way to a reader. */
    COARSE { ENTER(1 + p); mark(p); assert((m | spare) == (1 << NS) - 1 || IS_HERE(cst)); m = 0; LEAVE };
    /* Producer::close: leave, wake, Hold::release */
    pst[p] = CLOSED;
    wake_consumer();
#ifdef NO_LIVE
    plive[p] = 0
#else
    d_step { plive[p] = 0; if :: plw[p] == 1 -> cblk = 0 :: else fi; plw[p] = 0 }
#endif
  } unless { kill == 1 + p && pin[p] == 1 };
  if
  :: kill == 1 + p ->
     d_step { /* the kernel: owner died, one waiter is woken; bury() */
       kill = 0; there[1 + p] = 0; pin[p] = 0; plive[p] = 0; if :: pst[p] != CLOSED -> pst[p] = DEAD :: else fi;
       if :: inside == 1 + p -> gate = 0; inside = 0 :: else fi;
#ifndef NO_LIVE
       if :: plw[p] == 1 -> cblk = 0 :: else fi;
#endif
       plw[p] = 0; spare = 0; s = 0; i = 0; m = 0; e = 0; told = 0; seen = 0; live = 0; w = 0
     };
#ifdef REATTACH
     if :: pst[p] == DEAD -> run P(p, NEXT(as)) :: else fi
#endif
  :: else -> there[1 + p] = 0
  fi
}

proctype C(byte as) {
  byte q, s, i, m, e, over, turn; bit w, quiet; byte seen[NP], t[NP], live[NP];
  {
    /* Channel::attach_consumer, return_held */
    COARSE { ENTER(NP + 1);
    for (q : 0 .. NP - 1) {
      mark(q); s = 0;
      do
      :: s < NS ->
         if :: (m & (1 << s)) == 0 && holder[SLOT(q, s)] == READ ->
               d_step { lost[q]++; fix[AT(q, ftail[q])] = s }; ftail[q]++
         :: else fi; s++
      :: else -> s = 0; m = 0; break
      od
    }
    clive = as; cst = as;
    LEAVE;
    for (q : 0 .. NP - 1) { wake_producer(q) }
    skip; d_step { cin = 1; there[NP + 1] = 1; q = 0 } };
    do
    :: rhead[turn] != rtail[turn] -> /* Consumer::pop, release */
       COARSE { q = turn; s = rix[AT(q, rhead[q])];
#ifdef LATE_HOLDER
       rhead[q]++; holder[SLOT(q, s)] = READ;
#else
       assert(holder[SLOT(q, s)] == FREE_OR_FILLED || holder[SLOT(q, s)] == READ);
       holder[SLOT(q, s)] = READ; rhead[q]++;
#endif
       got[q]++ };
       push_free(q, s); s = 0; turn = (turn + 1) % NP; q = 0
#if NP > 1
    :: rhead[turn] == rtail[turn] && rhead[1 - turn] != rtail[1 - turn] -> turn = 1 - turn
    :: rhead[0] == rtail[0] && rhead[1] == rtail[1] ->
#else
    :: rhead[0] == rtail[0] ->
#endif
       COARSE { over = 0; /* Consumer::look, then pop once more, then ended */
       for (q : 0 .. NP - 1) {
         seen[q] = pst[q];
         t[q] = rtail[q];
#ifdef REATTACH
         if :: seen[q] == CLOSED -> over++ :: else fi
#else
         if :: seen[q] == CLOSED || seen[q] == DEAD -> over++ :: else fi
#endif
       }
       quiet = 1 };
#ifndef NO_RECHECK
       for (q : 0 .. NP - 1) { if :: rhead[q] != rtail[q] -> quiet = 0 :: else fi };
#endif
       if
       :: over == NP && quiet == 1 -> break
       :: quiet == 0 -> skip
       :: else -> /* Endpoint::watch (announce_waiter), raise_flag, Consumer::quiet, doze */
          COARSE { for (q : 0 .. NP - 1) {
            d_step { live[q] = plive[q]; if :: live[q] != 0 -> plw[q] = 1 :: else fi }
          } };
#ifdef RELACQ
          if :: csleep = 1 :: skip fi; /* in the store buffer still */
#else
          csleep = 1;
#endif
#ifndef NO_QUIET
          for (q : 0 .. NP - 1) {
            if :: rhead[q] != rtail[q] || pst[q] != seen[q] -> quiet = 0 :: else fi
          }
#endif
#ifdef RELACQ
          if :: csleep == 0 && quiet == 1 -> csleep = 1 :: else fi;
#endif
          if
          :: quiet == 0 -> csleep = 0
          :: else ->
             d_step {
#ifndef NO_LIVE
               for (q : 0 .. NP - 1) {
                 if :: live[q] != 0 && plive[q] != live[q] -> quiet = 0 :: else fi
               }
#endif
#ifdef ON_TAIL
               for (q : 0 .. NP - 1) { if :: rtail[q] != t[q] -> quiet = 0 :: else fi };
#else
               if :: csleep == 0 -> quiet = 0 :: else fi;
#endif
               if :: quiet == 1 -> cblk = 1 :: else fi
             };
             cblk == 0;
             csleep = 0
          fi
       fi;
       d_step { quiet = 0; over = 0; for (q : 0 .. NP - 1) { live[q] = 0; t[q] = 0; seen[q] = 0 }; q = 0 }
    od
  } unless { kill == NP + 1 && cin == 1 };
  if
  :: kill == NP + 1 ->
     d_step {
       kill = 0; there[NP + 1] = 0; cin = 0; cst = DEAD; clive = 0; if :: inside == NP + 1 -> gate = 0; inside = 0 :: else fi;
       if :: clw == 1 -> for (q : 0 .. NP - 1) { pblk[q] = 0 } :: else fi;
       clw = 0; cblk = 0; q = 0; s = 0; i = 0; m = 0; e = 0; w = 0; quiet = 0; over = 0; turn = 0;
       for (i : 0 .. NP - 1) { seen[i] = 0; t[i] = 0; live[i] = 0 }; i = 0
     };
#ifdef REATTACH
     run C(NEXT(as))
#endif
  :: else ->
     there[NP + 1] = 0;
     for (q : 0 .. NP - 1) { assert(rhead[q] == rtail[q]) } /* all that was published was taken */
  fi
}

proctype K() {
  byte who;
  do
  :: break
  :: select (who : 1 .. LAST);
     if :: atomic { kill == 0 && there[who] == 1 -> kill = who; break } :: else fi
  od
}

init {
  byte q;
  atomic {
    for (q : 0 .. NP - 1) { run P(q, ATTACHED) };
    run C(ATTACHED); run K();
#ifdef TWICE
    run K()
#endif
  };
  _nr_pr == 1 /* everybody came to an end: nobody hangs */
}
