import js from '@eslint/js'
import globals from 'globals'
import stylistic from '@stylistic/eslint-plugin'

export default [
  js.configs.recommended,
  {
    plugins: { style: stylistic },
    languageOptions: {
      ecmaVersion: 2024, sourceType: 'commonjs', globals: { ...globals.node }
    },
    rules: {
      'no-unused-vars': ['error', { args: 'none', caughtErrors: 'none' }],
      'no-empty': ['error', { allowEmptyCatch: true }],
      'style/space-before-function-paren': ['error', 'always'],
      'style/semi': ['error', 'never'],
      'style/quotes': ['error', 'single', { avoidEscape: true, allowTemplateLiterals: 'always' }],
      'style/comma-dangle': ['error', 'never'],
      'style/no-trailing-spaces': 'error',
      'style/eol-last': 'error',
      'style/keyword-spacing': 'error',
      'style/max-len': ['error', { code: 100 }]
    }
  }
]
