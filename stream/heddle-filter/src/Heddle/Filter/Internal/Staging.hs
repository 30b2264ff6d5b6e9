-- |
-- Module      : Heddle.Filter.Internal.Staging
-- Description : Stages at work
-- Stability   : internal, exempt from the version policy
--
-- Makes a machine of a stage.
--
-- Cost: a call for each piece and stage; 'ForEach' makes a machine for each section, unless
-- what it does to it needs none.
-- Owner: the thread that runs the machine, but for what is behind ':||' and behind a command
-- that is not inside of another stage: those have threads of their own.
module Heddle.Filter.Internal.Staging
  ( machine,
    counter,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.Foldable (for_)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Heddle.Bytes.Search (countByte)
import Heddle.Filter.Internal.Apart
import Heddle.Filter.Internal.Fields
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Print (printStage)
import Heddle.Filter.Internal.Splitting
import Heddle.Filter.Internal.Tail (lastRows)
import Heddle.Filter.Internal.Types
import Heddle.Prim.Atomic (modifyRef, newRef, readRef, writeRef)

-- | The machine of a stage, which pushes what comes out of it into a sink, and finishes it.
machine :: Stage -> Env -> Sink -> IO Sink
machine stage env to
  | envSpine env = spine (reverse (links stage)) env to
  | otherwise = single stage env to

-- A pipeline as a list, the last first, when it is built.
data Link
  = Same Stage
  | Border
  | Program ByteString

links :: Stage -> [Link]
links stage = go stage []
  where
    -- In front of the links behind it.
    go = \case
      a :> b -> go a . go b
      a :|| b -> go a . (Border :) . go b
      Command text -> (Program text :)
      one -> (Same one :)

-- From the last stage to the first. What runs on one thread has its turns together.
spine :: [Link] -> Env -> Sink -> IO Sink
spine stages env to = do
  last' <- withOwnTurns env
  onTurn last' (envFlush env)
  go stages to last'
  where
    go [] sink here = onTurn env (turn here) >> pure sink
    go (link : others) sink here = case link of
      Same stage -> single stage (inside here) sink >>= \made -> go others made here
      Border -> border (apart here)
      Program text -> border (streamCommand text here)
      where
        border make = do
          above <- withOwnTurns here {envBorder = envBorder here + 1}
          made <- make above sink
          go others made above

single :: Stage -> Env -> Sink -> IO Sink
single stage around to = case stage of
  Identity -> pure to
  Suppress -> pure (Sink (\_ -> pure False) (finish to))
  a :> b -> single b env to >>= single a env
  a :|| b -> single (a :> b) env to
  If (Last n Row) Identity Suppress -> lastRows n env to
  If s a b -> conditional s a b env to
  ForEach s a b -> each s a b env to
  Count s -> counter s env (\n -> push to (Char8.pack (shows n "\n")) >> finish to)
  Number between -> before (Char8.pack (show (envRow env)) <> between) to
  Numbers -> numbering to
  Prepend text -> before text to
  Append text -> pure to {finish = unless (Bytes.null text) (void (push to text)) >> finish to}
  Instead text -> pure (ignoring (\_ -> pure ()) (unless (Bytes.null text) (void (push to text)) >> finish to))
  Translate t -> pure to {push = push to . Bytes.map (translate t)}
  Fields ranges separator between -> fieldsOf ranges separator between env to
  Join joint a b -> joined joint a b env to
  Command text -> wholeCommand text env to
  where
    env = around {envStage = printStage stage}

-- What is inside of a stage shares what is downstream with its siblings.
inside :: Env -> Env
inside env = env {envSpine = False}

-- This first, even if nothing follows.
before :: ByteString -> Sink -> IO Sink
before text to = do
  told <- newRef (Bytes.null text)
  let tell = do
        done <- readRef told
        unless done (writeRef told True >> void (push to text))
  pure (Sink (\piece -> tell >> push to piece) (tell >> finish to))

conditional :: Splitter -> Stage -> Stage -> Env -> Sink -> IO Sink
conditional s a b env to = do
  label <- newRef False
  -- Does anybody want more: what is downstream, and a side from which something may come?
  wanting <- newRef (not (isSilent a && isSilent b))
  wantA <- newRef (not (isSilent a))
  wantB <- newRef (not (isSilent b))
  let shared =
        Sink
          { push = \piece -> do
              ok <- push to piece
              unless ok (writeRef wanting False)
              pure ok,
            finish = pure ()
          }
      enough true = do
        let side = if true then wantA else wantB
        before' <- readRef side
        when before' $ do
          writeRef side False
          other <- readRef (if true then wantB else wantA)
          unless other (writeRef wanting False)
  sinkA <- machine a (inside env) shared
  sinkB <- machine b (inside env) shared
  split s (inside env) $
    Sections
      { begin = writeRef label,
        more = \piece -> do
          true <- readRef label
          ok <- push (if true then sinkA else sinkB) piece
          unless ok (enough true),
        end = pure (),
        -- The other side will get nothing more.
        rest = enough . not,
        wantsMore = readRef wanting,
        over = finish sinkA >> finish sinkB >> finish to
      }

each :: Splitter -> Stage -> Stage -> Env -> Sink -> IO Sink
each s a b env to = do
  wanting <- newRef True
  row <- newRef (1 :: Int)
  now <- newRef silent
  let shared =
        Sink
          { push = \piece -> do
              ok <- push to piece
              unless ok (writeRef wanting False)
              pure ok,
            finish = pure ()
          }
      counts = usesNumber a || usesNumber b
      -- Stages without a memory need no machine of their own for each section.
      fresh = \case
        Identity -> pure shared
        Suppress -> pure silent
        Translate t -> machine (Translate t) (inside env) shared
        Instead text -> machine (Instead text) (inside env) shared
        Number between -> do
          n <- readRef row
          _ <- push shared (Char8.pack (show n) <> between)
          pure shared
        stage -> do
          n <- readRef row
          machine stage (inside env) {envRow = n} shared
  split s (inside env) $
    Sections
      { begin = \label -> do
          -- A section behind the last one that is wanted starts nothing.
          ok <- readRef wanting
          when ok (fresh (if label then a else b) >>= writeRef now),
        more = \piece -> do
          sink <- readRef now
          _ <- push sink piece
          when counts (readRef row >>= \n -> writeRef row $! n + countByte 0x0a piece),
        end = do
          sink <- readRef now
          finish sink
          writeRef now silent,
        rest = \label -> when (isSilent (if label then a else b)) (writeRef wanting False),
        wantsMore = readRef wanting,
        over = finish to
      }
  where
    silent = Sink (\_ -> pure False) (pure ())

-- | A sink that counts true sections, and tells how many there were.
counter :: Splitter -> Env -> (Int -> IO ()) -> IO Sink
counter s env done = do
  count <- newRef (0 :: Int)
  case s of
    -- Where a run of members begins, without telling anybody.
    Runs set -> do
      inRun <- newRef False
      let step (!was, !n) b = case inSet set b of
            True | not was -> (True, n + 1)
            now -> (now, n)
          take' piece = do
            before' <- readRef inRun
            n <- readRef count
            let (!after, !n') = Bytes.foldl' step (before', n) piece
            writeRef inRun after
            writeRef count n'
      pure (ignoring take' (readRef count >>= done))
    _ ->
      split s (inside env) $
        Sections
          { begin = \label -> when label (readRef count >>= \n -> writeRef count $! n + 1),
            more = \_ -> pure (),
            end = pure (),
            rest = \_ -> pure (),
            wantsMore = pure True,
            over = readRef count >>= done
          }

numbering :: Sink -> IO Sink
numbering to = do
  count <- newRef (0 :: Int)
  inRow <- newRef False
  wanting <- newRef True
  let go piece = unless (Bytes.null piece) $ do
        open <- readRef inRow
        unless open $ do
          n <- (+ 1) <$> readRef count
          writeRef count n
          ok <- push to (Char8.pack (shows n "\n"))
          unless ok (writeRef wanting False)
        case Bytes.elemIndex 0x0a piece of
          Nothing -> writeRef inRow True
          Just i -> do
            writeRef inRow False
            more' <- readRef wanting
            when more' (go (Bytes.unsafeDrop (i + 1) piece))
  pure (Sink (\piece -> go piece >> readRef wanting) (finish to))

fieldsOf :: [FieldRange] -> Maybe ByteString -> ByteString -> Env -> Sink -> IO Sink
fieldsOf ranges separator between env to = byRows env (push to . selectFields ranges separator between) (finish to)

-- Whole rows, the last perhaps without its end.
byRows :: Env -> (ByteString -> IO Bool) -> IO () -> IO Sink
byRows env take' done = do
  held <- newHeld env
  kept <- newRef []
  wanting <- newRef True
  let give row = take' row >>= \ok -> unless ok (writeRef wanting False)
      go piece = unless (Bytes.null piece) $ case Bytes.elemIndex 0x0a piece of
        Nothing -> hold held piece >> modifyRef kept (\pieces -> (piece : pieces, ()))
        Just i -> do
          earlier <- readRef kept
          let here = Bytes.unsafeTake (i + 1) piece
          if null earlier
            then give here
            else do
              writeRef kept []
              dropHeld held (sum (map Bytes.length earlier))
              give (Bytes.concat (reverse (here : earlier)))
          more' <- readRef wanting
          when more' (go (Bytes.unsafeDrop (i + 1) piece))
  pure $
    Sink
      (\piece -> go piece >> readRef wanting)
      ( do
          earlier <- readRef kept
          unless (null earlier) (give (Bytes.concat (reverse earlier)))
          done
      )

joined :: Joint -> Stage -> Stage -> Env -> Sink -> IO Sink
joined joint a b env to = case joint of
  Flipped other -> joined other b a env to
  Appending -> do
    held <- newHeld env
    kept <- newRef Seq.empty
    wanting <- newRef True
    first <- machine a (inside env) (Sink (passed wanting) (pure ()))
    second <- machine b (inside env) (ignoring (\piece -> hold held piece >> modifyRef kept (\pieces -> (pieces |> piece, ()))) (pure ()))
    twice wanting first second (pure ()) $ do
      pieces <- readRef kept
      for_ pieces (push to)
      finish to
  Interleaving -> turns (\pass x y -> pass x >> pass y) (void . push to)
  Zipping -> turns (\pass x y -> pass (withoutEnd x <> y)) (\_ -> pure ())
  where
    passed wanting piece = push to piece >>= \ok -> ok <$ unless ok (writeRef wanting False)
    -- Until neither of them wants more, or what is downstream does not.
    twice wanting first second between done = do
      wantsA <- newRef True
      wantsB <- newRef True
      -- A side that wants no more gets no more: it may start commands.
      let give wants sink piece = do
            open <- readRef wants
            when open (push sink piece >>= writeRef wants)
            readRef wants
      pure $
        Sink
          ( \piece -> do
              downstream <- readRef wanting
              if downstream
                then do
                  a' <- give wantsA first piece
                  b' <- give wantsB second piece
                  () <- between
                  still <- readRef wanting
                  pure (still && (a' || b'))
                else pure False
          )
          (finish first >> finish second >> between >> done)
    withoutEnd row = if not (Bytes.null row) && Bytes.last row == 0x0a then Bytes.init row else row
    -- What is done with a row of each, and with those left over at the end.
    turns pair alone = do
      held <- newHeld env
      rowsA <- newRef Seq.empty
      rowsB <- newRef Seq.empty
      wanting <- newRef True
      let put rows row = True <$ (hold held row >> modifyRef rows (\queue -> (queue |> row, ())))
          drain = do
            queueA <- readRef rowsA
            queueB <- readRef rowsB
            case (queueA, queueB) of
              (x :<| xs, y :<| ys) -> do
                dropHeld held (Bytes.length x + Bytes.length y)
                writeRef rowsA xs
                writeRef rowsB ys
                ok <- pair (passed wanting) x y
                when ok drain
              _ -> pure ()
      first <- byRows env (put rowsA) (pure ()) >>= machine a (inside env)
      second <- byRows env (put rowsB) (pure ()) >>= machine b (inside env)
      twice wanting first second drain $ do
        readRef rowsA >>= mapM_ alone
        readRef rowsB >>= mapM_ alone
        finish to
