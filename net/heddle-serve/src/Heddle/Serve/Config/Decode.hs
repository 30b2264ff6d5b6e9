{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Decode
-- Description : Values from a tree, and everything that is wrong with it
-- Stability   : internal, exempt from the version policy
--
-- Decoders are applicative and not monads, so that a decoder goes on after a mistake: whoever corrects a file sees all its mistakes
-- at once. It also makes what the rest says, as if keys and items with mistakes were not there, so that what the rest names can be checked,
-- too. An unknown key is reported with the nearest key that there is.
--
-- Cost: O(nodes times keys of an object).
-- Owner: values.
module Heddle.Serve.Config.Decode
  ( -- * Decoders
    Decoder,
    decodeNode,
    decodeRest,
    placed,
    refine,
    judged,
    textWith,
    anyText,
    yesNo,
    wholeNumber,
    oneOrMore,
    oneOf,
    entriesOf,

    -- * Objects
    Fields,
    objectOf,
    optionalKey,

    -- * Words
    nearest,

    -- * Problems
    inOrder,
  )
where

import Control.Monad (void)
import Data.Char (isDigit)
import Data.List (intercalate, sortOn)
import Data.Maybe (catMaybes)
import Data.Set qualified as Set
import Data.Text qualified as T
import Heddle.Serve.Config.Tree
import Text.Read (readMaybe)

-- | All problems, and what could be made in spite of them.
data Outcome a = Outcome ![Problem] !(Maybe a)

instance Functor Outcome where
  fmap f (Outcome problems value) = Outcome problems (fmap f value)

instance Applicative Outcome where
  pure = Outcome [] . Just
  Outcome a f <*> Outcome b x = Outcome (a ++ b) (f <*> x)

-- | Makes a value of a node.
newtype Decoder a = Decoder (Node -> Outcome a)

instance Functor Decoder where
  fmap f (Decoder run) = Decoder (fmap f . run)

-- | The value, or everything that is wrong, in the order of the file.
decodeNode :: Decoder a -> Node -> Either [Problem] a
decodeNode decoder node = case decodeRest decoder node of
  ([], Just value) -> Right value
  (problems, _) -> Left problems

-- | Everything that is wrong, in the order of the file, and what the rest says, if there is a rest.
decodeRest :: Decoder a -> Node -> ([Problem], Maybe a)
decodeRest (Decoder run) node = let Outcome problems value = run node in (inOrder problems, value)

bad :: Node -> String -> Outcome a
bad node why = Outcome [Problem (nodePosition node) why] Nothing

-- Without the value if there is none.
leavingOut :: Outcome a -> Outcome (Maybe a)
leavingOut (Outcome problems value) = Outcome problems (Just value)

-- | The value with its place.
placed :: Decoder a -> Decoder (Position, a)
placed (Decoder run) = Decoder (\node -> (,) (nodePosition node) <$> run node)

-- | Refuse values, or make others of them; a mistake is that of the whole value.
refine :: (a -> Either String b) -> Decoder a -> Decoder b
refine check (Decoder run) = Decoder $ \node -> case run node of
  Outcome [] (Just value) -> either (bad node) pure (check value)
  Outcome problems _ -> Outcome problems Nothing

-- | The same, where mistakes have places of their own. Of a value with mistakes it is not said that it lacks what they are about.
judged :: (a -> Either [Problem] b) -> Decoder a -> Decoder b
judged check (Decoder run) = Decoder $ \node -> case run node of
  Outcome [] (Just value) -> either (`Outcome` Nothing) pure (check value)
  Outcome problems value -> Outcome problems (value >>= either (const Nothing) Just . check)

-- | A text that a reader understands; the words say what is expected.
textWith :: String -> (String -> Either String a) -> Decoder a
textWith what reader = Decoder $ \node -> case nodeValue node of
  Scalar True content | content `elem` ["~", "null"] -> bad node ("expected " ++ what ++ ", and this is nothing; write it in quotes if it is meant as a text")
  Scalar _ content
    -- The system's names end at it.
    | T.any (== '\0') content -> bad node "a text holds no zero byte"
    | otherwise -> either (bad node) pure (reader (T.unpack content))
  other -> unexpected node what other

unexpected :: Node -> String -> Value -> Outcome a
unexpected node what = \case
  Wrong why -> bad node why
  other -> bad node ("expected " ++ what ++ ", and this is " ++ kindOf other)

-- | Any text.
anyText :: Decoder String
anyText = textWith "a text" Right

-- | @yes@ or @no@; also @true@, @false@, @on@ and @off@.
yesNo :: Decoder Bool
yesNo = textWith "yes or no" $ \given -> case lookup given [("yes", True), ("no", False), ("true", True), ("false", False), ("on", True), ("off", False)] of
  Just value -> Right value
  Nothing -> Left ("'" ++ given ++ "' is neither yes nor no")

-- | A whole number within bounds, and what it is a number of.
wholeNumber :: Int -> Int -> String -> Decoder Int
wholeNumber least most what = textWith what $ \given -> case readMaybe given of
  Just n | all isDigit given && n >= toInteger least && n <= toInteger most -> Right (fromInteger n)
  _ -> Left ("'" ++ given ++ "' is not " ++ what ++ " (" ++ show least ++ " to " ++ show most ++ ")")

-- | A list, or a value alone as a list of one.
oneOrMore :: Decoder a -> Decoder [a]
oneOrMore (Decoder run) = Decoder $ \node -> case nodeValue node of
  List nodes -> catMaybes <$> traverse (leavingOut . run) nodes
  _ -> pure <$> run node

-- | One of these words; after another one, the nearest is suggested.
oneOf :: String -> [(String, a)] -> Decoder a
oneOf what choices = textWith (alternatives (map fst choices)) $ \given -> case lookup given choices of
  Just value -> Right value
  Nothing -> Left ("'" ++ given ++ "' is not " ++ what ++ "; " ++ adviceFor given (map fst choices))

-- What there is instead of a word.
adviceFor :: String -> [String] -> String
adviceFor given known = case nearest given known of
  Just word -> "did you mean '" ++ word ++ "'?"
  Nothing
    | length known > 20 -> "there are " ++ show (length known) ++ " others; see the manual, or --config-schema"
    | otherwise -> "there " ++ (if length known == 1 then "is " else "are ") ++ alternatives known

alternatives :: [String] -> String
alternatives known = case reverse known of
  final : others@(_ : _) -> intercalate ", " (reverse others) ++ " and " ++ final
  _ -> concat known

-- | A mapping whose keys are data; the same key twice is a mistake.
entriesOf :: String -> Decoder k -> Decoder v -> Decoder [(k, v)]
entriesOf what (Decoder readKey) (Decoder readValue) = Decoder $ \node -> case nodeValue node of
  Mapping given -> catMaybes <$> traverse entry given <* onceEach given
  other -> unexpected node (what ++ " (a mapping)") other
  where
    entry (key, value)
      | isMerge key = leavingOut (bad key noMerge)
      | otherwise = leavingOut ((,) <$> readKey key <*> readValue value)

onceEach :: [(Node, Node)] -> Outcome ()
onceEach given = Outcome (go Set.empty (map fst given)) (Just ())
  where
    go seen = \case
      key@(Node at (Scalar _ name)) : others
        | Set.member name seen -> Problem at (alreadyGiven key) : go seen others
        | otherwise -> go (Set.insert name seen) others
      _ : others -> go seen others
      [] -> []

-- YAML 1.1 has such a key.
isMerge :: Node -> Bool
isMerge key = nodeValue key == Scalar True "<<"

noMerge :: String
noMerge = "keys are not merged with '<<'; write an alias for a whole value, or put the keys into a file and include it"

alreadyGiven :: Node -> String
alreadyGiven key = case nodeValue key of
  Scalar _ name -> "the key '" ++ T.unpack name ++ "' is given twice"
  _ -> "a key is given twice"

kindOf :: Value -> String
kindOf = \case
  Scalar True text | text `elem` ["", "~", "null"] -> "nothing"
  Scalar _ _ -> "a text"
  List _ -> "a list"
  Mapping _ -> "a mapping"
  Wrong _ -> "a mistake"

-- | The entries of a mapping: the keys that are known, and what is made of them.
data Fields a = Fields [String] (Node -> [(String, Node)] -> Outcome a)

instance Functor Fields where
  fmap f (Fields keys run) = Fields keys (\node given -> f <$> run node given)

instance Applicative Fields where
  pure value = Fields [] (\_ _ -> pure value)
  Fields a f <*> Fields b x = Fields (a ++ b) (\node given -> f node given <*> x node given)

-- | A key that may be missing.
optionalKey :: String -> Decoder a -> Fields (Maybe a)
optionalKey key (Decoder run) = Fields [key] (\_ given -> maybe (pure Nothing) (leavingOut . run) (lookup key given))

-- | A mapping with these keys and no others, each once.
objectOf :: String -> Fields a -> Decoder a
objectOf what (Fields known run) = Decoder $ \node -> case nodeValue node of
  Mapping given -> run node [(T.unpack key, value) | (Node _ (Scalar _ key), value) <- given] <* traverse (unknown . fst) given <* onceEach [entry | entry@(Node _ (Scalar _ name), _) <- given, T.unpack name `elem` known]
  other -> unexpected node (what ++ " (a mapping)") other
  where
    unknown key = case nodeValue key of
      Scalar _ given
        | name `elem` known -> pure ()
        | isMerge key -> bad' key noMerge
        | otherwise -> bad' key ("'" ++ name ++ "' is not a key of " ++ what ++ "; " ++ adviceFor name known)
        where
          name = T.unpack given
      other -> bad' key ("a key is a text, and this is " ++ kindOf other)
    bad' key why = void (leavingOut (bad key why))

-- | The word that is a few changes of letters away.
--
-- >>> nearest "lisen" ["hosts", "listen"]
-- Just "listen"
--
-- [Cost]: the product of the lengths, for each word.
nearest :: String -> [String] -> Maybe String
nearest given = fmap snd . first . sortOn fst . filter ((<= most) . fst) . map (\word -> (distance given word, word))
  where
    most = max 1 (length given `quot` 3)
    first found = case found of
      best : _ -> Just best
      [] -> Nothing

-- | Each problem once, in the order of the files.
inOrder :: [Problem] -> [Problem]
inOrder = Set.toAscList . Set.fromList

-- How many letters must be added, removed or changed.
distance :: String -> String -> Int
distance a b = last (foldl row [0 .. length b] a)
  where
    row before c = scanl (cell c) (head before + 1) (zip3 b before (drop 1 before))
    cell c left (d, diagonal, above) = minimum [left + 1, above + 1, if c == d then diagonal else diagonal + 1]
