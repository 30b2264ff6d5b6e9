{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Format
-- Description : The language of -printf
-- Stability   : internal, exempt from the version policy
--
-- Reads a format into pieces, which are texts and directives, with GNU find's warnings and errors.
--
-- Cost: O(n), once per format. Owner: values.
module Heddle.Walk.Find.Internal.Format
  ( Format (..),
    Piece (..),
    Directive (..),
    Moment (..),
    Padding (..),
    noPadding,
    paddingText,
    FormatProblem (..),
    parseFormat,
    directiveNeedsStatus,
    asksForFileSystem,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Char (chr, isDigit, isOctDigit, ord)

-- | What to write for an entry.
data Format = Format
  { formatPieces :: ![Piece],
    -- | Write it out at once (it ended in @\\c@).
    formatFlush :: !Bool
  }
  deriving stock (Eq, Show)

-- | Text as it is, or something of the entry.
data Piece
  = Verbatim !ByteString
  | Directive !Padding !Directive
  deriving stock (Eq, Show)

-- | What of the entry: a letter of @-printf@, or a time with strftime's letter.
data Directive
  = Letter !Char
  | TimeOf !Moment !Char
  deriving stock (Eq, Show)

-- | Which of the entry's times.
data Moment = AccessTime | BirthTime | ChangeTime | ModifyTime
  deriving stock (Eq, Show)

-- | Flags, width and precision.
data Padding = Padding
  { padFlags :: !ByteString,
    padWidth :: !(Maybe Int),
    padPrecision :: !(Maybe Int)
  }
  deriving stock (Eq, Show)

-- | Nothing asked for.
noPadding :: Padding
noPadding = Padding Bytes.empty Nothing Nothing

-- | As it stands between the percent sign and the letter.
paddingText :: Padding -> ByteString
paddingText (Padding flags width precision) =
  Bytes.concat [flags, maybe Bytes.empty number width, maybe Bytes.empty (Char8.cons '.' . number) precision]
  where
    number = Char8.pack . show

-- | What is wrong with a format. The first three are errors, the others warnings.
data FormatProblem
  = -- | A percent sign ends it.
    LonePercent
  | -- | A directive without meaning yet.
    ReservedDirective !Char
  | -- | A width or precision beyond all use.
    HugeWidth
  | LoneBackslash
  | UnknownEscape !Char
  | UnknownDirective !Char
  | IncompleteDirective !Char
  deriving stock (Eq, Show)

-- | A format, with warnings in the order they arise, or an error and the warnings before
-- it.
--
-- [Cost]: O(n).
parseFormat :: ByteString -> ([FormatProblem], Either FormatProblem Format)
parseFormat text = go [] [] (Char8.unpack text)
  where
    go warnings pieces rest = case rest of
      "" -> done warnings pieces False
      '\\' : more -> escape warnings pieces more
      '%' : more -> directive warnings pieces more
      _ ->
        let (plain, left) = break (`elem` "\\%") rest
         in go warnings (verbatim plain : pieces) left
    done warnings pieces flush = (reverse warnings, Right (Format (joined (reverse pieces)) flush))
    failed warnings problem = (reverse warnings, Left problem)

    escape warnings pieces rest = case rest of
      "" -> done (LoneBackslash : warnings) (verbatim "\\" : pieces) False
      'c' : _ -> done warnings pieces True
      c : more
        | isOctDigit c ->
          let (digits, left) = spanUpTo 3 isOctDigit rest
              value = foldl (\n d -> n * 8 + ord d - ord '0') 0 digits
           in go warnings (verbatim [chr (value `mod` 256)] : pieces) left
        | Just meant <- lookup c escapes -> go warnings (verbatim [meant] : pieces) more
        | otherwise -> go (UnknownEscape c : warnings) (verbatim ['\\', c] : pieces) more
    escapes =
      [('a', '\a'), ('b', '\b'), ('f', '\f'), ('n', '\n'), ('r', '\r'), ('t', '\t'), ('v', '\v'), ('\\', '\\')]

    directive warnings pieces rest
      | null rest = failed warnings LonePercent
      | otherwise = case padding rest of
        Nothing -> failed warnings HugeWidth
        Just (pad, shown, left) -> case left of
          "" -> failed warnings (ReservedDirective '\0')
          '%' : more -> go warnings (verbatim ('%' : shown) : pieces) more
          c : more
            | Just moment <- lookup c moments -> case more of
              "" -> done (IncompleteDirective c : warnings) (verbatim ('%' : shown ++ [c]) : pieces) False
              k : end -> go warnings (Directive pad (TimeOf moment k) : pieces) end
            | c `elem` "abcdDfFgGhHiklmMnpPsStuUyYZ" -> go warnings (Directive pad (Letter c) : pieces) more
            | c `elem` "{[(" -> failed warnings (ReservedDirective c)
            | otherwise -> go (UnknownDirective c : warnings) (verbatim ('%' : shown ++ [c]) : pieces) more
    moments = [('A', AccessTime), ('B', BirthTime), ('C', ChangeTime), ('T', ModifyTime)]

    verbatim = Verbatim . Char8.pack

-- Flags, digits, and digits behind a point; with them, how they were written.
padding :: String -> Maybe (Padding, String, String)
padding text = do
  let (flags, rest) = span (`elem` "-+ #") text
      (width, rest') = span isDigit rest
      (zeros, size) = span (== '0') width
      (precision, left) = case rest' of
        '.' : more -> let (digits, end) = span isDigit more in (Just digits, end)
        _ -> (Nothing, rest')
  w <- if null size then Just Nothing else Just <$> number size
  p <- traverse number precision
  Just
    ( Padding (Char8.pack (flags ++ take 1 zeros)) w p,
      flags ++ width ++ maybe "" ('.' :) precision,
      left
    )
  where
    number digits
      | n > 1000000 = Nothing
      | otherwise = Just (fromInteger n)
      where
        n = foldl (\k d -> k * 10 + toInteger (ord d - ord '0')) 0 digits

spanUpTo :: Int -> (a -> Bool) -> [a] -> ([a], [a])
spanUpTo n keep list = (start, drop (length start) list)
  where
    start = takeWhile keep (take n list)

-- Neighbouring texts become one.
joined :: [Piece] -> [Piece]
joined (Verbatim a : Verbatim b : rest) = joined (Verbatim (a <> b) : rest)
joined (piece : rest) = piece : joined rest
joined [] = []

-- | Does it ask for more than name and type?
directiveNeedsStatus :: Directive -> Bool
directiveNeedsStatus = \case
  TimeOf _ _ -> True
  Letter c -> c `elem` "abcDFgGikmMnsStuU"

-- | Does it ask for the type of the file system?
asksForFileSystem :: Format -> Bool
asksForFileSystem format = or [c == 'F' | Directive _ (Letter c) <- formatPieces format]
