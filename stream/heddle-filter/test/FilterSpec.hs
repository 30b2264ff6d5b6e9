-- | The specification of components: their meaning on lists of bytes, in the most obvious form.
--
-- A splitter is a function from all bytes of a stream to its sections; a stage is a machine
-- that is given byte after byte, since it matters for 'If' when something comes out.
module FilterSpec
  ( Section,
    sections,
    stageOutput,
  )
where

import Data.ByteString qualified as Bytes
import Data.List (intercalate, isPrefixOf)
import Data.Maybe (isJust)
import Data.Word (Word8)
import FilterRegex (Alphabet (..), matchesOf, readRx)
import Heddle.Filter

{- HLINT ignore "Avoid lambda" -}
{- HLINT ignore "Use first" -}
{- HLINT ignore "Use fmap" -}
{- HLINT ignore "Redundant <$>" -}
-- The plainest form, because it is the specification.

-- | True or false, and its bytes.
type Section = (Bool, [Word8])

-- Splitters ------------------------------------------------------------------

-- | The sections of a stream; what is asked first is what regular expressions take.
sections :: Alphabet -> Splitter -> [Word8] -> [Section]
sections alphabet = go
  where
    go :: Splitter -> [Word8] -> [Section]
    go = \case
      Row -> map ((,) True) . rowsOf
      Line -> concatMap lineOf . rowsOf
      Runs set -> runsOf (inSet set)
      Substring rule text
        | Bytes.null text -> (++ [(True, [])]) . concatMap (\b -> [(True, []), (False, [b])])
        | otherwise -> occurrences (fold rule) (Bytes.unpack text)
      Matching p -> joinFalse . concatMap (found p) . rowsOf
      Not s -> map (\(label, bs) -> (not label, bs)) . go s
      And s t -> \bs -> pointwise (&&) (go s bs) (go t bs)
      Or s t -> \bs -> pointwise (||) (go s bs) (go t bs)
      Having s t -> map (\(label, bs) -> (label && any fst (go t bs), bs)) . go s
      HavingOnly s t -> map (\(label, bs) -> (label && all fst (go t bs), bs)) . go s
      FollowedBy s t -> followed t . go s
      First n s -> firstTrue n . go s
      Last n s -> reverse . firstTrue n . reverse . go s
      Prefix s -> onlyHead . go s
      Suffix s -> reverse . onlyHead . reverse . go s
      Between s t -> \bs -> between (go s bs) (go t bs)
    followed t = \case
      [] -> []
      (label, bs) : rest -> (label && begins (go t (concatMap snd rest)), bs) : followed t rest
    begins ss = not (null ss) && fst (head ss)
    found p row = cut 0 (matchesOf alphabet {folded = fold (patternCase p)} (readRx (patternText p)) text)
      where
        text = takeWhile (/= newline) row
        cut at [] = [(False, drop at row)]
        cut at ((from, to) : more) = (False, slice at from row) : (True, slice from to row) : cut to more
    slice from to = take (to - from) . drop from

newline :: Word8
newline = 10

fold :: CaseRule -> Word8 -> Word8
fold CaseMatters b = b
fold IgnoreAsciiCase b = if b >= 65 && b <= 90 then b + 32 else b

-- Lines with their newlines.
rowsOf :: [Word8] -> [[Word8]]
rowsOf [] = []
rowsOf bs = case break (== newline) bs of
  (row, []) -> [row]
  (row, _ : rest) -> (row ++ [newline]) : rowsOf rest

lineOf :: [Word8] -> [Section]
lineOf row = (True, text) : [(False, end) | not (null end)]
  where
    (text, end) = break (== newline) row

runsOf :: (Word8 -> Bool) -> [Word8] -> [Section]
runsOf _ [] = []
runsOf member bs@(b : _) = (member b, run) : runsOf member rest
  where
    (run, rest) = span ((== member b) . member) bs

occurrences :: (Word8 -> Word8) -> [Word8] -> [Word8] -> [Section]
occurrences same text = joinFalse . go
  where
    go [] = []
    go bs@(b : rest)
      | map same text `isPrefixOf` map same bs = (True, take size bs) : go (drop size bs)
      | otherwise = (False, [b]) : go rest
    size = length text

-- Neighbouring false sections become one, and empty ones are dropped.
joinFalse :: [Section] -> [Section]
joinFalse = go . filter (/= (False, []))
  where
    go = \case
      [] -> []
      (True, bs) : rest -> (True, bs) : go rest
      ss -> let (others, rest) = break fst ss in (False, concatMap snd others) : go rest

-- A place of the stream: the labels of the empty sections there, and then a byte, unless it
-- is the end, with whether a section begins with it, and the section's label.
type Place = ([Bool], Maybe (Bool, Bool, Word8))

places :: [Section] -> [Place]
places ss = case span (null . snd) ss of
  (empties, []) -> [(map fst empties, Nothing)]
  (empties, (label, bs) : rest) ->
    zip (map fst empties : repeat []) [Just (isFirst, label, b) | (isFirst, b) <- zip (True : repeat False) bs] ++ places rest

pointwise :: (Bool -> Bool -> Bool) -> [Section] -> [Section] -> [Section]
pointwise op ss ts = assemble (zipWith both (places ss) (places ts))
  where
    both (empties, this) (empties', this') = (zipWith op empties empties', byte this this')
    byte (Just (begins, label, b)) (Just (begins', label', _)) = Just (begins || begins', op label label', b)
    byte _ _ = Nothing

-- From a place where a section begins.
assemble :: [Place] -> [Section]
assemble = \case
  [] -> []
  (empties, this) : rest -> [(label, []) | label <- empties] ++ maybe [] (section rest) this
  where
    section rest (_, label, b) =
      let (more, rest') = span goesOn rest in (label, b : [c | (_, Just (_, _, c)) <- more]) : assemble rest'
    goesOn = \case
      ([], Just (begins, _, _)) -> not begins
      _ -> False

firstTrue :: Int -> [Section] -> [Section]
firstTrue = go
  where
    go n = \case
      [] -> []
      (True, bs) : rest -> (n > 0, bs) : go (n - 1) rest
      (False, bs) : rest -> (False, bs) : go n rest

onlyHead :: [Section] -> [Section]
onlyHead = \case
  [] -> []
  s : rest -> s : [(False, bs) | (_, bs) <- rest]

data Where = Outside | InOpening | Inside | InClosing

between :: [Section] -> [Section] -> [Section]
between ss ts = joined (go Outside [(a, b) | ((_, Just a), (_, Just b)) <- zip (places ss) (places ts)])
  where
    go state bytes = case (state, bytes) of
      (_, []) -> []
      (Outside, ((_, opens, b), _) : rest) -> (False, [b]) : go (if opens then InOpening else Outside) rest
      (InOpening, ((begins, opens, b), _) : rest)
        | opens && not begins -> (False, [b]) : go InOpening rest
        | otherwise -> inside [] bytes
      (Inside, _) -> inside [] bytes
      (InClosing, ((_, _, b), (begins, closes, _)) : rest)
        | closes && not begins -> (False, [b]) : go InClosing rest
        | otherwise -> go Outside bytes
    inside got = \case
      ((_, _, b), (_, closes, _)) : rest
        | closes -> (True, reverse got) : (False, [b]) : go InClosing rest
        | otherwise -> inside (b : got) rest
      [] -> [(True, reverse got)]
    joined = \case
      [] -> []
      (True, bs) : rest -> (True, bs) : joined rest
      rest -> let (others, rest') = break fst rest in (False, concatMap snd others) : joined rest'

-- Stages ---------------------------------------------------------------------

-- | All that comes out of a stage.
stageOutput :: Alphabet -> Stage -> [Word8] -> [Word8]
stageOutput alphabet stage = output (machine alphabet 1 stage)

-- What comes out at each input, and at the end.
data Machine e = Machine (e -> ([Word8], Machine e)) [Word8]

output :: Machine e -> [e] -> [Word8]
output (Machine _ end) [] = end
output (Machine step _) (e : es) = let (out, next) = step e in out ++ output next es

-- Several inputs at once.
steps :: Machine e -> [e] -> ([Word8], Machine e)
steps m [] = ([], m)
steps (Machine step _) (e : es) = (out ++ out', final)
  where
    (out, next) = step e
    (out', final) = steps next es

each :: (Word8 -> [Word8]) -> Machine Word8
each f = Machine (\b -> (f b, each f)) []

withEnd :: [Word8] -> Machine Word8 -> Machine Word8
withEnd end (Machine step end') = Machine (\b -> withEnd end <$> step b) (end' ++ end)

before :: [Word8] -> Machine Word8
before text = Machine (\b -> (text ++ [b], each pure)) text

-- One that says nothing before the end.
atOnce :: ([Word8] -> [Word8]) -> Machine Word8
atOnce f = go []
  where
    go got = Machine (\b -> ([], go (b : got))) (f (reverse got))

-- | The number is that of the row in which the input begins.
machine :: Alphabet -> Int -> Stage -> Machine Word8
machine alphabet = make
  where
    make row = \case
      Identity -> each pure
      Suppress -> each (const [])
      a :> b -> chain (make row a) (make row b)
      a :|| b -> chain (make row a) (make row b)
      If s a b -> alongSections s (conditional False (make row a) (make row b))
      ForEach s a b -> alongSections s (forEach 1 (\n label -> make n (if label then a else b)))
      Count s -> atOnce (\bs -> decimal (length (filter fst (sections alphabet s bs))) ++ [newline])
      Number text -> before (decimal row ++ Bytes.unpack text)
      Numbers -> numbers 1 True
      Prepend text -> before (Bytes.unpack text)
      Append text -> withEnd (Bytes.unpack text) (each pure)
      Instead text -> withEnd (Bytes.unpack text) (each (const []))
      Translate t -> each (pure . translate t)
      Fields ranges separator with -> atOnce (concatMap (fieldsOf ranges (Bytes.unpack <$> separator) (Bytes.unpack with)) . rowsOf)
      Join joint a b -> atOnce (\bs -> join joint (output (make row a) bs) (output (make row b) bs))
      Command text -> error ("FilterSpec: it is not known what a command does: " ++ show text)
    alongSections s m = case cutting s of
      Just c -> along c m
      Nothing -> atOnce (output m . concatMap events . sections alphabet s)
    events (label, bs) = [Begin label] ++ map Has bs ++ [Over]

decimal :: Int -> [Word8]
decimal = map (fromIntegral . fromEnum) . show

chain :: Machine Word8 -> Machine Word8 -> Machine Word8
chain (Machine step end) second@(Machine _ _) =
  Machine
    (\b -> let (out, first') = step b; (out', second') = steps second out in (out', chain first' second'))
    (output second end)

numbers :: Int -> Bool -> Machine Word8
numbers n isFirst = Machine (\b -> (if isFirst then decimal n ++ [newline] else [], numbers (if b == newline then n + 1 else n) (b == newline))) []

-- A section begins, has a byte, has ended.
data Event = Begin Bool | Has Word8 | Over

conditional :: Bool -> Machine Word8 -> Machine Word8 -> Machine Event
conditional label a@(Machine stepA endA) b@(Machine stepB endB) = Machine step (endA ++ endB)
  where
    step = \case
      Begin l -> ([], conditional l a b)
      Over -> ([], conditional label a b)
      Has byte
        | label -> (\a' -> conditional label a' b) <$> stepA byte
        | otherwise -> (\b' -> conditional label a b') <$> stepB byte

forEach :: Int -> (Int -> Bool -> Machine Word8) -> Machine Event
forEach row fresh = go row (each (const []))
  where
    go n now@(Machine stepNow end) = Machine step []
      where
        step = \case
          Begin label -> ([], go n (fresh n label))
          Has byte -> go (if byte == newline then n + 1 else n) <$> stepNow byte
          Over -> (end, go n now)

-- Splitters that tell at every byte what it belongs to.
data Cutter = Cutter (Word8 -> ([Event], Cutter)) [Event]

cutting :: Splitter -> Maybe Cutter
cutting = \case
  Row -> Just (cutRows False)
  Line -> Just (cutLines False)
  Runs set -> Just (cutRuns (inSet set) Nothing)
  Not s -> inverted <$> cutting s
  _ -> Nothing
  where
    cutRows open =
      Cutter
        (\b -> ([Begin True | not open] ++ [Has b] ++ [Over | b == newline], cutRows (b /= newline)))
        [Over | open]
    cutLines open =
      Cutter
        ( \b ->
            if b == newline
              then ([Begin True | not open] ++ [Over, Begin False, Has b, Over], cutLines False)
              else ([Begin True | not open] ++ [Has b], cutLines True)
        )
        [Over | open]
    cutRuns member label =
      Cutter
        ( \b ->
            let new = label /= Just (member b)
             in ([Over | new, isJust label] ++ [Begin (member b) | new] ++ [Has b], cutRuns member (Just (member b)))
        )
        [Over | isJust label]
    inverted (Cutter step end) = Cutter (\b -> let (es, next) = step b in (map invert es, inverted next)) (map invert end)
    invert = \case
      Begin label -> Begin (not label)
      event -> event

along :: Cutter -> Machine Event -> Machine Word8
along (Cutter step end) m =
  Machine
    (\b -> let (es, next) = step b; (out, m') = steps m es in (out, along next m'))
    (output m end)

fieldsOf :: [FieldRange] -> Maybe [Word8] -> [Word8] -> [Word8] -> [Word8]
fieldsOf ranges separator with row = intercalate with (concatMap chosen ranges) ++ end
  where
    (text, end) = break (== newline) row
    fields = maybe (blankFields text) (`splitAtEach` text) separator
    chosen (FieldRange from to) = [field | (i, field) <- zip [1 ..] fields, i >= from, maybe True (i <=) to]

blankFields :: [Word8] -> [[Word8]]
blankFields bs = case dropWhile isBlank bs of
  [] -> []
  bs' -> let (field, rest) = break isBlank bs' in field : blankFields rest
  where
    isBlank b = b == 32 || b == 9

splitAtEach :: [Word8] -> [Word8] -> [[Word8]]
splitAtEach separator = go []
  where
    go got = \case
      [] -> [reverse got]
      bs@(b : rest)
        | separator `isPrefixOf` bs -> reverse got : go [] (drop (length separator) bs)
        | otherwise -> go (b : got) rest

join :: Joint -> [Word8] -> [Word8] -> [Word8]
join joint as bs = case joint of
  Appending -> as ++ bs
  Interleaving -> concat (turns (rowsOf as) (rowsOf bs))
  Zipping -> concat (zipWith (\a b -> takeWhile (/= newline) a ++ b) (rowsOf as) (rowsOf bs))
  Flipped other -> join other bs as
  where
    turns (x : xs) (y : ys) = x : y : turns xs ys
    turns xs [] = xs
    turns [] ys = ys
