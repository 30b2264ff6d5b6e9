-- |
-- Module      : Heddle.Walk.Find.Internal.Tree
-- Description : From a row of primaries to an expression
-- Stability   : internal, exempt from the version policy
--
-- Operator precedence, parentheses, the @-a@ that is left out and the @-print@ that is
-- left out, and GNU find's words for everything that can be wrong with them.
--
-- Cost: O(n). Owner: values.
module Heddle.Walk.Find.Internal.Tree
  ( Token (..),
    Shape (..),
    Operator (..),
    buildTree,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Heddle.Walk.Find.Internal.Syntax

-- | A word of the command line, with its arguments.
data Token = Token
  { tokenName :: !ByteString,
    tokenShape :: !Shape
  }

-- | What it is to the grammar.
data Shape
  = Leaf !Expr
  | Negation
  | Binary !Operator
  | Open
  | Close
  | -- | The parentheses that we put around everything, before the @-print@ left out.
    OuterOpen
  | OuterClose
  | -- | An option that is no part of the expression; GNU find's messages give its name to the
    -- word before it.
    Unsaid

-- | Operators, loosest first.
data Operator = Comma | OrElse | AndAlso
  deriving stock (Eq, Ord)

-- | The expression that the words mean, or what is wrong with them.
--
-- [Cost]: O(n).
buildTree :: [Token] -> Either ByteString Expr
buildTree given
  | null (renamed given) = Right printIt
  | any printing given = parse (joined (renamed given))
  | otherwise =
    parse
      ( joined
          ( renamed (Token (Char8.pack "(") OuterOpen : given)
              ++ [Token (Char8.pack ")") OuterClose, Token (Char8.pack "-print") (Leaf printIt)]
          )
      )
  where
    printIt = Action (Print StandardOutput)
    printing token = case tokenShape token of
      Leaf (Action action) -> case action of
        PruneHere -> False
        QuitNow -> False
        _ -> True
      _ -> False
    parse tokens = do
      (expr, left) <- expression Nothing Nothing tokens
      case left of
        [] -> Right expr
        Token name shape : _ -> case shape of
          Close -> Left (Char8.pack "you have too many ')'")
          OuterClose -> Left (Char8.pack "you have too many ')'")
          _ -> Left (Char8.pack "unexpected extra predicate '" <> name <> Char8.pack "'")

-- Without the options that are no part of the expression.
renamed :: [Token] -> [Token]
renamed = \case
  Token _ Unsaid : rest -> renamed rest
  Token _ shape : Token name Unsaid : rest -> renamed (Token name shape : rest)
  token : rest -> token : renamed rest
  [] -> []

-- The -a between two primaries.
joined :: [Token] -> [Token]
joined = \case
  first : rest@(second : _)
    | ends first && begins second -> first : Token (Char8.pack "-a") (Binary AndAlso) : joined rest
    | otherwise -> first : joined rest
  rest -> rest
  where
    ends token = case tokenShape token of
      Leaf _ -> True
      Close -> True
      OuterClose -> True
      _ -> False
    begins token = case tokenShape token of
      Leaf _ -> True
      Negation -> True
      Open -> True
      OuterOpen -> True
      _ -> False

-- How tightly what is to the left binds: Nothing, an operator, or a negation.
data Tightness = Around !Operator | Tightest
  deriving stock (Eq, Ord)

type Parsed = Either ByteString (Expr, [Token])

expression :: Maybe Tightness -> Maybe Token -> [Token] -> Parsed
expression around previous = \case
  [] -> Left (Char8.pack "invalid expression")
  token : rest -> case tokenShape token of
    Binary _ ->
      Left
        ( Char8.concat
            [ Char8.pack "invalid expression; you have used a binary operator '",
              tokenName token,
              Char8.pack "' with nothing before it."
            ]
        )
    Close
      | Just operator <- previous,
        isOperator operator ->
        Left (Char8.pack "expected an expression between '" <> tokenName operator <> Char8.pack "' and ')'")
      | otherwise -> Left (Char8.pack "invalid expression; you have too many ')'")
    OuterClose -> Left (Char8.pack "expected an expression after '" <> maybe mempty tokenName previous <> Char8.pack "'")
    Leaf expr -> continue around expr rest
    -- 'renamed' has taken these out.
    Unsaid -> expression around previous rest
    Negation -> do
      (inner, left) <- expression (Just Tightest) (Just token) rest
      continue around (Not inner) left
    Open -> group token rest (\case Close -> True; _ -> False)
    OuterOpen -> group token rest (\case Close -> True; OuterClose -> True; _ -> False)
  where
    group token rest closes = do
      case rest of
        [] -> Left (needsMore token)
        Token _ OuterClose : _ -> Left (needsMore token)
        Token name Close : _ -> case tokenShape token of
          OuterOpen -> Left (Char8.pack "invalid expression: expected expression before closing parentheses '" <> name <> Char8.pack "'.")
          _ -> Left (Char8.pack "invalid expression; empty parentheses are not allowed.")
        _ -> Right ()
      (inner, left) <- expression Nothing (Just token) rest
      case left of
        Token _ shape : more | closes shape -> continue around inner more
        _ -> Left (Char8.pack "invalid expression; I was expecting to find a ')' somewhere but did not see one.")
    needsMore token =
      Char8.concat
        [ Char8.pack "invalid expression; expected to find a ')' but didn't see one. Perhaps you need an extra predicate after '",
          tokenName token,
          Char8.pack "'"
        ]
    isOperator token = case tokenShape token of
      Binary _ -> True
      Negation -> True
      _ -> False

-- Operators that bind more tightly than what is around.
continue :: Maybe Tightness -> Expr -> [Token] -> Parsed
continue around left = \case
  token : rest
    | Binary operator <- tokenShape token,
      maybe True (< Around operator) around -> do
      (right, more) <- expression (Just (Around operator)) (Just token) rest
      continue around (combine operator left right) more
  rest -> Right (left, rest)
  where
    combine = \case
      Comma -> List
      OrElse -> Or
      AndAlso -> And
