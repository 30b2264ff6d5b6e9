-- |
-- Module      : Heddle.Filter.Language
-- Description : The language of heddle pipe
-- Stability   : stable
--
-- Reads expressions such as
--
-- > select row having "FIND ME" numbered | head 10
--
-- @docs/manual/pipe.md@ is the manual.
--
-- Cost: linear in the expression.
-- Owner: none; stages are values.
module Heddle.Filter.Language
  ( -- * Reading
    parseStage,
    ParseError (..),
    renderParseError,

    -- * Writing
    printStage,
    printSplitter,
  )
where

import Control.Monad (when)
import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.Except (ExceptT, runExceptT, throwE)
import Control.Monad.Trans.State.Strict (StateT, evalStateT, get, modify')
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isAlpha)
import Data.List (intercalate, nub, sortOn)
import Data.Maybe (fromMaybe)
import Heddle.Filter.Internal.Print
import Heddle.Filter.Internal.Tokens
import Heddle.Filter.Internal.Types
import Heddle.Filter.Internal.Vocabulary

-- | A parse error in three lines: the position and the message, the line of the source, and a
-- caret below the position.
renderParseError :: ByteString -> ParseError -> ByteString
renderParseError source (ParseError at message) =
  Char8.concat
    [ Char8.pack (place ++ message ++ "\n  "),
      Char8.map flat line,
      Char8.pack ("\n  " ++ replicate column ' ' ++ "^\n")
    ]
  where
    before = Char8.take at source
    lineBefore = Char8.takeWhileEnd (/= '\n') before
    line = lineBefore <> Char8.takeWhile (/= '\n') (Char8.drop at source)
    -- Continuation bytes of UTF-8 take no column.
    column = length (filter (\c -> fromEnum c .&. 0xc0 /= 0x80) (Char8.unpack lineBefore))
    place
      | Char8.elem '\n' source = "line " ++ show (1 + Char8.count '\n' before) ++ ", column " ++ show (column + 1) ++ ": "
      | otherwise = "column " ++ show (column + 1) ++ ": "
    -- A tab would move the caret.
    flat c = if c == '\t' then ' ' else c

-- | Read an expression. It is an action because it compiles the regular expressions.
--
-- [Cost]: linear.
-- [Blocks]: never.
parseStage :: ByteString -> IO (Either ParseError Stage)
parseStage source = case tokenise (Char8.unpack source) of
  Left e -> pure (Left e)
  Right found -> runExceptT (evalStateT (chain Outside <* expect End) (Input found []))

-- The remaining tokens, and what the next one was compared with, for the error message.
data Input = Input [Placed] [String]

type Parser = StateT Input (ExceptT ParseError IO)

-- What @number@ counts: rows, or the sections around it.
data Around = Outside | InSection
  deriving stock (Eq)

peek :: Parser Token
peek =
  get >>= \case
    Input (Placed _ t : _) _ -> pure t
    Input [] _ -> pure End

offset :: Parser Int
offset =
  get >>= \case
    Input (Placed o _ : _) _ -> pure o
    Input [] _ -> pure 0

advance :: Parser ()
advance = modify' (\(Input ts _) -> Input (drop 1 ts) [])

wanted :: String -> Parser ()
wanted what = modify' (\(Input ts looked) -> Input ts (what : looked))

-- Consume the next token if it is this one.
accept :: Token -> Parser Bool
accept token = do
  wanted (describe token)
  next <- peek
  if next == token then True <$ advance else pure False

expect :: Token -> Parser ()
expect token = accept token >>= \ok -> if ok then pure () else unexpected

-- Run a parser after a token, if that is the next.
behind :: Token -> Parser a -> Parser (Maybe a)
behind token parser = accept token >>= \ok -> if ok then Just <$> parser else pure Nothing

keyword :: (String, Parser a) -> Parser (Maybe a)
keyword (name, parser) = behind (Name name) parser

firstOf :: [Parser (Maybe a)] -> Parser (Maybe a)
firstOf = \case
  [] -> pure Nothing
  p : ps -> p >>= maybe (firstOf ps) (pure . Just)

needed :: Parser (Maybe a) -> Parser a
needed parser = parser >>= maybe unexpected pure

orElse :: Parser (Maybe a) -> a -> Parser a
orElse parser other = fromMaybe other <$> parser

failAt :: Int -> String -> Parser a
failAt at message = lift (throwE (ParseError at message))

-- Fail: the next token is none of the expected ones.
unexpected :: Parser a
unexpected = do
  Input _ looked <- get
  at <- offset
  found <- peek
  let choices = nub (reverse looked)
  failAt at ("expected " ++ alternatives choices ++ ", found " ++ describe found ++ guess found choices)
  where
    -- Suggest the nearest keyword, if it is near enough.
    guess found choices = case (found, sortOn fst (filter isNear [(distance c (describe found), c) | c@(_ : letter : _) <- choices, isAlpha letter])) of
      (Name _, (_, near) : _) -> "; is " ++ near ++ " meant?"
      _ -> ""
    isNear (d, c) = d <= min 2 ((length c - 3) `div` 2)

alternatives :: [String] -> String
alternatives = \case
  [] -> "nothing more"
  [a] -> a
  several -> intercalate ", " (init several) ++ " or " ++ last several

-- The edit distance.
distance :: String -> String -> Int
distance a b = last (foldl next [0 .. length a] b)
  where
    next above c = scanl (cheapest c) (sum (take 1 above) + 1) (zip3 a above (drop 1 above))
    cheapest c left (x, diagonal, up) = minimum [left + 1, up + 1, diagonal + (if x == c then 0 else 1)]

-- Stages ---------------------------------------------------------------------

chain :: Around -> Parser Stage
chain around = stage around >>= more
  where
    more left =
      firstOf
        [ behind (Symbol "|") ((left :>) <$> stage around),
          behind (Symbol "||") ((left :||) <$> stage around)
        ]
        >>= maybe (pure left) more

-- A stage, and the splitters that restrict it.
stage :: Around -> Parser Stage
stage around = firstOf (map keyword (stages around) ++ [bare, parenthesised]) >>= maybe strange pure >>= more
  where
    -- A text or an expression alone gives the rows that have it.
    bare = fmap (\s -> If (Having Row s) Identity Suppress) <$> firstOf [literal, expression]
    strange = do
      at <- offset
      peek >>= \case
        Name word | Just advice <- lookup word habits -> failAt at ("'" ++ word ++ "' is no stage; " ++ advice)
        _ -> unexpected
    parenthesised = behind (Symbol "(") (chain around <* expect (Symbol ")"))
    more inner =
      firstOf
        [ keyword ("where", (\s -> If s inner Identity) <$> needed splitter),
          keyword ("unless", (\s -> If s Identity inner) <$> needed splitter)
        ]
        >>= maybe (pure inner) more

-- What is meant by names of other programs.
habits :: [(String, String)]
habits =
  [(word, "\"text\" or /regex/ alone gives the rows that have it") | word <- ["grep", "egrep", "fgrep", "rg"]]
    ++ [ ("sed", "replace \"text\" with \"other\" replaces, and replace /regex/ with \"other\""),
         ("awk", "fields 1,3 gives fields of rows, and foreach row having \"x\" then ... end works on some rows"),
         ("cut", "fields 1,3 by \":\" gives fields of rows"),
         ("tr", "upper and lower change letters, replace bytes \"abc\" with \"\" and command \"tr ...\" other bytes"),
         ("wc", "count gives the number of rows, count word that of words"),
         ("nl", "number puts numbers before rows"),
         ("paste", "zip (A, B) puts rows side by side"),
         ("cat", "id gives the input")
       ]
    ++ [(word, "command \"" ++ word ++ "\" runs that program") | word <- ["sort", "uniq", "tac", "rev", "shuf", "tee", "xargs"]]

stages :: Around -> [(String, Parser Stage)]
stages around =
  [ ("id", pure Identity),
    ("suppress", pure Suppress),
    ("select", needed splitter >>= select),
    ("if", conditional If around),
    ("foreach", conditional ForEach InSection),
    ("count", Count <$> splitter `orElse` Row),
    ("number", numbering <$> text `orElse` Char8.pack ":"),
    ("numbers", pure Numbers),
    ("prepend", Prepend <$> needed text),
    ("append", Append <$> needed text),
    ("instead", Instead <$> needed text),
    ("replace", replacing),
    ("head", rowsBy "head" First),
    ("tail", rowsBy "tail" Last),
    ("fields", fields),
    ("concat", both Appending),
    ("interleave", both Interleaving),
    ("zip", both Zipping),
    ("flip", needed joint >>= both . Flipped),
    ("command", Command <$> needed text)
  ]
    ++ [(translationName t, pure (Translate t)) | t <- namedTranslations]
  where
    select s = do
      numbered <- keyword ("numbered", text `orElse` Char8.pack ":")
      pure (maybe (If s Identity Suppress) (\between -> ForEach s (Number between) Suppress) numbered)
    rowsBy word which = do
      at <- offset
      next <- peek
      when (next == Symbol "-") (failAt at ("there are no options; the number alone is how many rows, as in " ++ word ++ " 5"))
      (\n -> If (which n Row) Identity Suppress) <$> number `orElse` 10
    conditional make inside = do
      s <- needed splitter
      expect (Name "then")
      a <- chain inside
      b <- keyword ("else", chain inside) `orElse` Identity
      expect (Name "end")
      pure (make s a b)
    -- Outside sections, it numbers rows.
    numbering between
      | around == InSection = Number between
      | otherwise = ForEach Row (Number between) Identity
    replacing = do
      s <- needed splitter
      expect (Name "with")
      by <- needed text
      pure (ForEach s (Instead by) Identity)
    joint =
      firstOf
        [ keyword ("concat", pure Appending),
          keyword ("interleave", pure Interleaving),
          keyword ("zip", pure Zipping),
          keyword ("flip", Flipped <$> needed joint)
        ]
    both how = do
      expect (Symbol "(")
      a <- chain around
      expect (Symbol ",")
      b <- chain around
      expect (Symbol ")")
      pure (Join how a b)

fields :: Parser Stage
fields = do
  ranges <- fieldRange >>= more
  separator <- keyword ("by", separating)
  between <- keyword ("with", needed text) `orElse` fromMaybe (Char8.pack " ") separator
  pure (Fields ranges separator between)
  where
    more r = (r :) <$> behind (Symbol ",") (fieldRange >>= more) `orElse` []
    separating = do
      at <- offset
      t <- needed text
      when (Char8.null t) (failAt at "fields are separated by at least one byte")
      pure t
    fieldRange = do
      at <- offset
      from <- needed number
      when (from < 1) (failAt at "fields are counted from 1")
      behind (Symbol "-") (upTo from) `orElse` FieldRange from (Just from)
    upTo from = do
      at <- offset
      to <- number
      when (maybe False (< from) to) (failAt at "this range ends before it begins")
      pure (FieldRange from to)

-- Splitters ------------------------------------------------------------------

-- 'Nothing' if no splitter begins here.
splitter :: Parser (Maybe Splitter)
splitter = conjunction >>= traverse (chained Or (Name "or") (needed conjunction))

conjunction :: Parser (Maybe Splitter)
conjunction = unary >>= traverse (chained And (Name "and") (needed unary))

chained :: (Splitter -> Splitter -> Splitter) -> Token -> Parser Splitter -> Splitter -> Parser Splitter
chained make token operand = go
  where
    go left = behind token operand >>= maybe (pure left) (go . make left)

unary :: Parser (Maybe Splitter)
unary =
  firstOf
    [ keyword ("not", Not <$> needed unary),
      keyword ("first", First <$> number `orElse` 1 <*> needed unary),
      keyword ("last", Last <$> number `orElse` 1 <*> needed unary),
      keyword ("prefix", Prefix <$> needed unary),
      keyword ("suffix", Suffix <$> needed unary),
      tightly
    ]

-- An atom and what binds tightest.
tightly :: Parser (Maybe Splitter)
tightly = atom >>= traverse more
  where
    more left =
      firstOf
        [ keyword ("having", Having left <$> needed atom),
          keyword ("having-only", HavingOnly left <$> needed atom),
          keyword ("followed-by", FollowedBy left <$> needed atom)
        ]
        >>= maybe (pure left) more

atom :: Parser (Maybe Splitter)
atom = firstOf ([literal, expression] ++ map keyword words' ++ [parenthesised])
  where
    words' =
      [ ("row", pure Row),
        ("line", pure Line),
        ("substring", needed literal),
        ("bytes", Runs . bytesSet quoted <$> needed text),
        ("from", Between <$> needed tightly <* expect (Name "to") <*> needed tightly)
      ]
        ++ [(setName s, pure (Runs s)) | s <- namedSets]
    parenthesised = behind (Symbol "(") (needed splitter <* expect (Symbol ")"))

literal :: Parser (Maybe Splitter)
literal = do
  wanted "a text in double quotes"
  peek >>= \case
    Text rule t -> Just (Substring rule t) <$ advance
    _ -> pure Nothing

expression :: Parser (Maybe Splitter)
expression = do
  wanted "a regular expression between slashes"
  at <- offset
  peek >>= \case
    Expression rule t -> do
      advance
      lift (lift (newPattern rule t)) >>= \case
        Left complaint -> failAt at ("this regular expression is malformed: " ++ complaint)
        Right p -> pure (Just (Matching p))
    _ -> pure Nothing

-- Literals -------------------------------------------------------------------

text :: Parser (Maybe ByteString)
text = do
  wanted "a text in double quotes"
  at <- offset
  peek >>= \case
    Text CaseMatters t -> Just t <$ advance
    Text IgnoreAsciiCase _ -> failAt at "only a text that is looked for can ignore case"
    _ -> pure Nothing

number :: Parser (Maybe Int)
number = do
  wanted "a number"
  peek >>= \case
    Number' n -> Just n <$ advance
    _ -> pure Nothing
