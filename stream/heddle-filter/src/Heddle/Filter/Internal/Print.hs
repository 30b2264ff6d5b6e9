-- |
-- Module      : Heddle.Filter.Internal.Print
-- Description : Components as expressions
-- Stability   : internal, exempt from the version policy
--
-- Writes a component in the language that "Heddle.Filter.Language" reads.
--
-- Cost: linear in the expression.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Print
  ( printStage,
    printSplitter,
    quoted,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.Char (chr, intToDigit)
import Data.List (intercalate)
import Data.Word (Word8)
import Heddle.Filter.Internal.Types

-- | A stage as an expression, which reads back as the same stage.
printStage :: Stage -> String
printStage stage = chain stage ""

-- A difference list, so that a long chain is not copied at each link.
chain :: Stage -> ShowS
chain = \case
  a :> b -> chain a . showString " | " . single b
  a :|| b -> chain a . showString " || " . single b
  other -> single other

parenthesised :: ShowS -> ShowS
parenthesised = showParen True

single :: Stage -> ShowS
single = \case
  Identity -> showString "id"
  Suppress -> showString "suppress"
  If s Identity Suppress -> showString "select " . disjunct s
  If s a b -> conditional "if " s a b
  ForEach s (Number between) Suppress -> showString "select " . disjunct s . showString " numbered " . text between
  ForEach s a b -> conditional "foreach " s a b
  Count s -> showString "count " . disjunct s
  Number between -> showString "number " . text between
  Numbers -> showString "numbers"
  Prepend t -> showString "prepend " . text t
  Append t -> showString "append " . text t
  Instead t -> showString "instead " . text t
  Translate t -> showString (translationName t)
  Fields ranges separator between ->
    showString ("fields " ++ intercalate "," (map range ranges))
      . maybe id (\t -> showString " by " . text t) separator
      . showString " with "
      . text between
  Join joint a b -> showString (joining joint) . showString " (" . chain a . showString ", " . chain b . showString ")"
  Command t -> showString "command " . text t
  stages@(_ :> _) -> parenthesised (chain stages)
  stages@(_ :|| _) -> parenthesised (chain stages)
  where
    text = showString . quoted
    conditional word s a b =
      showString word
        . disjunct s
        . showString " then "
        . chain a
        . (if b == Identity then id else showString " else " . chain b)
        . showString " end"
    range (FieldRange from to)
      | to == Just from = show from
      | otherwise = show from ++ "-" ++ maybe "" show to
    joining = \case
      Appending -> "concat"
      Interleaving -> "interleave"
      Zipping -> "zip"
      Flipped joint -> "flip " ++ joining joint

-- | A splitter as an expression, which reads back as the same splitter.
printSplitter :: Splitter -> String
printSplitter s = disjunct s ""

disjunct :: Splitter -> ShowS
disjunct = \case
  Or a b -> disjunct a . showString " or " . conjunct b
  other -> conjunct other
  where
    conjunct = \case
      And a b -> conjunct a . showString " and " . unary b
      other -> unary other
    unary = \case
      Not s -> showString "not " . unary s
      First n s -> showString "first " . shows n . showString " " . unary s
      Last n s -> showString "last " . shows n . showString " " . unary s
      Prefix s -> showString "prefix " . unary s
      Suffix s -> showString "suffix " . unary s
      other -> tight other
    tight = \case
      Having a b -> operand a . showString " having " . atom b
      HavingOnly a b -> operand a . showString " having-only " . atom b
      FollowedBy a b -> operand a . showString " followed-by " . atom b
      Between a b -> showString "from " . operand a . showString " to " . operand b
      other -> atom other
    -- What follows it would belong to the second part of a 'Between'.
    operand = \case
      s@(Between _ _) -> atom s
      other -> tight other
    atom = \case
      Row -> showString "row"
      Line -> showString "line"
      Runs set -> showString (setName set)
      Substring rule text -> showString (quoted text ++ flag rule)
      Matching p -> showString ("/" ++ slashed (patternText p) ++ "/" ++ flag (patternCase p))
      other -> parenthesised (disjunct other)
    flag = \case
      IgnoreAsciiCase -> "i"
      CaseMatters -> ""
    slashed = slash . map (chr . fromIntegral) . Bytes.unpack
    slash = \case
      '/' : rest -> "\\/" ++ slash rest
      -- A slash after a backslash is a slash, too.
      '\\' : c : rest | c /= '/' -> '\\' : c : slash rest
      '\\' : rest@('/' : _) -> slash rest
      c : rest -> c : slash rest
      [] -> []

-- | A text in quotes; bytes that cannot be printed as escapes.
quoted :: ByteString -> String
quoted text = "\"" ++ concatMap shown (Bytes.unpack text) ++ "\""

shown :: Word8 -> String
shown b = case chr (fromIntegral b) of
  '"' -> "\\\""
  '\\' -> "\\\\"
  '\n' -> "\\n"
  '\t' -> "\\t"
  '\r' -> "\\r"
  c
    | b >= 0x20 && b < 0x7f -> [c]
    | otherwise -> "\\x" ++ [hex (b `div` 16), hex (b `mod` 16)]
  where
    hex = intToDigit . fromIntegral
