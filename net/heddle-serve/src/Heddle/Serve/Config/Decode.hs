-- |
-- Module      : Heddle.Serve.Config.Decode
-- Description : Values from a tree, and everything that is wrong with it
-- Stability   : internal, exempt from the version policy
--
-- Decoders are applicative and not monads, so that a decoder goes on after a mistake: whoever corrects a file sees all its mistakes
-- at once. An unknown key is reported with the nearest key that there is.
--
-- Cost: O(nodes times keys of an object).
-- Owner: values.
module Heddle.Serve.Config.Decode
  ( -- * Decoders
    Decoder,
    decodeNode,
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
    requiredKey,
    optionalKey,

    -- * Words
    nearest,
  )
where

import Data.List (intercalate, nub, sort, sortOn)
import Data.Text qualified as T
import Heddle.Serve.Config.Tree
import Text.Read (readMaybe)

-- | All problems, or a value.
newtype Outcome a = Outcome (Either [Problem] a)

instance Functor Outcome where
  fmap f (Outcome r) = Outcome (fmap f r)

instance Applicative Outcome where
  pure = Outcome . Right
  Outcome (Left a) <*> Outcome (Left b) = Outcome (Left (a ++ b))
  Outcome (Left a) <*> _ = Outcome (Left a)
  Outcome (Right f) <*> r = fmap f r

-- | Makes a value of a node.
newtype Decoder a = Decoder (Node -> Outcome a)

instance Functor Decoder where
  fmap f (Decoder run) = Decoder (fmap f . run)

-- | The value, or everything that is wrong, in the order of the file.
decodeNode :: Decoder a -> Node -> Either [Problem] a
decodeNode (Decoder run) node = case run node of
  Outcome (Left problems) -> Left (nub (sort problems))
  Outcome (Right value) -> Right value

bad :: Node -> String -> Outcome a
bad node why = Outcome (Left [Problem (nodePosition node) why])

-- | The value with its place.
placed :: Decoder a -> Decoder (Position, a)
placed (Decoder run) = Decoder (\node -> (,) (nodePosition node) <$> run node)

-- | Refuse values, or make others of them; a mistake is that of the whole value.
refine :: (a -> Either String b) -> Decoder a -> Decoder b
refine check (Decoder run) = Decoder $ \node -> case run node of
  Outcome (Left problems) -> Outcome (Left problems)
  Outcome (Right value) -> either (bad node) pure (check value)

-- | The same, where mistakes have places of their own.
judged :: (a -> Either [Problem] b) -> Decoder a -> Decoder b
judged check (Decoder run) = Decoder $ \node -> case run node of
  Outcome (Left problems) -> Outcome (Left problems)
  Outcome (Right value) -> Outcome (check value)

-- | A text that a reader understands; the words say what is expected.
textWith :: String -> (String -> Either String a) -> Decoder a
textWith what reader = Decoder $ \node -> case nodeValue node of
  Scalar _ content -> either (bad node) pure (reader (T.unpack content))
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
  Just n | n >= toInteger least && n <= toInteger most -> Right (fromInteger n)
  _ -> Left ("'" ++ given ++ "' is not " ++ what ++ " (" ++ show least ++ " to " ++ show most ++ ")")

-- | A list, or a value alone as a list of one.
oneOrMore :: Decoder a -> Decoder [a]
oneOrMore (Decoder run) = Decoder $ \node -> case nodeValue node of
  List nodes -> traverse run nodes
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
  Nothing -> "there " ++ (if length known == 1 then "is " else "are ") ++ alternatives known

alternatives :: [String] -> String
alternatives known = case reverse known of
  final : others@(_ : _) -> intercalate ", " (reverse others) ++ " and " ++ final
  _ -> concat known

-- | A mapping whose keys are data; the same key twice is a mistake.
entriesOf :: Eq k => String -> Decoder k -> Decoder v -> Decoder [(k, v)]
entriesOf what (Decoder readKey) (Decoder readValue) = Decoder $ \node -> case nodeValue node of
  Mapping given -> (<*) (traverse (\(key, value) -> (,) <$> readKey key <*> readValue value) given) (repeated [] (map fst given))
  other -> bad node ("expected " ++ what ++ " (a mapping), and this is " ++ kindOf other)
  where
    repeated _ [] = pure ()
    repeated seen (key : others) = case readKey key of
      Outcome (Right k)
        | k `elem` seen -> bad key (alreadyGiven key) <* repeated seen others
        | otherwise -> repeated (k : seen) others
      Outcome (Left _) -> repeated seen others

alreadyGiven :: Node -> String
alreadyGiven key = case nodeValue key of
  Scalar _ name -> "the key '" ++ T.unpack name ++ "' is given twice"
  _ -> "a key is given twice"

kindOf :: Value -> String
kindOf = \case
  Scalar _ _ -> "a text"
  List _ -> "a list"
  Mapping _ -> "a mapping"

-- | The entries of a mapping: the keys that are known, and what is made of them.
data Fields a = Fields [String] (Node -> [(String, Node)] -> Outcome a)

instance Functor Fields where
  fmap f (Fields keys run) = Fields keys (\node given -> f <$> run node given)

instance Applicative Fields where
  pure value = Fields [] (\_ _ -> pure value)
  Fields a f <*> Fields b x = Fields (a ++ b) (\node given -> f node given <*> x node given)

-- | A key that must be there.
requiredKey :: String -> Decoder a -> Fields a
requiredKey key (Decoder run) = Fields [key] $ \node given ->
  maybe (bad node ("the key '" ++ key ++ "' is missing here")) run (lookup key given)

-- | A key that may be missing.
optionalKey :: String -> Decoder a -> Fields (Maybe a)
optionalKey key (Decoder run) = Fields [key] (\_ given -> traverse run (lookup key given))

-- | A mapping with these keys and no others, each once.
objectOf :: String -> Fields a -> Decoder a
objectOf what (Fields known run) = Decoder $ \node -> case nodeValue node of
  Mapping given -> run node [(T.unpack key, value) | (Node _ (Scalar _ key), value) <- given] <* checkKeys [] (map fst given)
  other -> bad node ("expected " ++ what ++ " (a mapping), and this is " ++ kindOf other)
  where
    checkKeys _ [] = pure ()
    checkKeys seen (key : others) = case nodeValue key of
      Scalar _ given
        | name `notElem` known -> bad key ("'" ++ name ++ "' is not a key of " ++ what ++ "; " ++ adviceFor name known) <* checkKeys seen others
        | name `elem` seen -> bad key (alreadyGiven key) <* checkKeys seen others
        | otherwise -> checkKeys (name : seen) others
        where
          name = T.unpack given
      other -> bad key ("a key is a text, and this is " ++ kindOf other) <* checkKeys seen others

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

-- How many letters must be added, removed or changed.
distance :: String -> String -> Int
distance a b = last (foldl row [0 .. length b] a)
  where
    row before c = scanl (cell c) (head before + 1) (zip3 b before (drop 1 before))
    cell c left (d, diagonal, above) = minimum [left + 1, above + 1, if c == d then diagonal else diagonal + 1]
