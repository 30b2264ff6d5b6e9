-- |
-- Module      : Heddle.Component.Internal.Print
-- Description : Components as expressions
-- Stability   : internal, exempt from the version policy
--
-- Writes a component in the language that "Heddle.Component.Language" reads.
--
-- Cost: linear in the expression.
-- Owner: nobody; pure.
module Heddle.Component.Internal.Print
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
import Heddle.Component.Internal.Types

-- | A stage as an expression, which reads back as the same stage.
printStage :: Stage -> String
printStage = \case
  a :> b -> printStage a ++ " | " ++ piped b
  a :|| b -> printStage a ++ " || " ++ piped b
  other -> piped other
  where
    piped stage@(_ :> _) = "(" ++ printStage stage ++ ")"
    piped stage@(_ :|| _) = "(" ++ printStage stage ++ ")"
    piped stage = single stage

single :: Stage -> String
single = \case
  Identity -> "id"
  Suppress -> "suppress"
  If s Identity Suppress -> "select " ++ printSplitter s
  If s a b -> conditional "if " s a b
  ForEach s (Number between) Suppress -> "select " ++ printSplitter s ++ " numbered " ++ quoted between
  ForEach s a b -> conditional "foreach " s a b
  Count s -> "count " ++ printSplitter s
  Number between -> "number " ++ quoted between
  Numbers -> "numbers"
  Prepend text -> "prepend " ++ quoted text
  Append text -> "append " ++ quoted text
  Instead text -> "instead " ++ quoted text
  Translate t -> translationName t
  Fields ranges separator between ->
    "fields " ++ intercalate "," (map range ranges) ++ maybe "" ((" by " ++) . quoted) separator ++ " with " ++ quoted between
  Join joint a b -> joining joint ++ " (" ++ printStage a ++ ", " ++ printStage b ++ ")"
  Command text -> "command " ++ quoted text
  chain -> "(" ++ printStage chain ++ ")"
  where
    conditional word s a b =
      word ++ printSplitter s ++ " then " ++ printStage a ++ (if b == Identity then "" else " else " ++ printStage b) ++ " end"
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
printSplitter = \case
  Or a b -> printSplitter a ++ " or " ++ conjunct b
  other -> conjunct other
  where
    conjunct = \case
      And a b -> conjunctLeft a ++ " and " ++ unary b
      other -> unary other
    conjunctLeft = \case
      And a b -> conjunctLeft a ++ " and " ++ unary b
      other -> unary other
    unary = \case
      Not s -> "not " ++ unary s
      First n s -> "first " ++ show n ++ " " ++ unary s
      Last n s -> "last " ++ show n ++ " " ++ unary s
      Prefix s -> "prefix " ++ unary s
      Suffix s -> "suffix " ++ unary s
      other -> tight other
    tight = \case
      Having a b -> tight a ++ " having " ++ atom b
      HavingOnly a b -> tight a ++ " having-only " ++ atom b
      FollowedBy a b -> tight a ++ " followed-by " ++ atom b
      Between a b -> "from " ++ atom a ++ " to " ++ atom b
      other -> atom other
    atom = \case
      Row -> "row"
      Line -> "line"
      Runs set -> setName set
      Substring rule text -> quoted text ++ flag rule
      Matching p -> "/" ++ slashed (patternText p) ++ "/" ++ flag (patternCase p)
      other -> "(" ++ printSplitter other ++ ")"
    flag = \case
      IgnoreAsciiCase -> "i"
      CaseMatters -> ""
    slashed = slash . map (chr . fromIntegral) . Bytes.unpack
    slash = \case
      '/' : rest -> "\\/" ++ slash rest
      -- A slash behind a backslash is one, too.
      '\\' : c : rest | c /= '/' -> '\\' : c : slash rest
      '\\' : rest@('/' : _) -> slash rest
      c : rest -> c : slash rest
      [] -> []

-- | A text in quotes, with what cannot be shown as escapes.
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
